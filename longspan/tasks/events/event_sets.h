// The sequences of the splits of a data set of events.
//
// Files of splits are what they are (classes/split_files.h). One file is divided by sequences, the
// ninth and the tenth of every ten for validation and test, or by time: of each sequence the first
// 70 of a hundred events, the next 10 and the last 20, each part behind the last event of the one
// before, which it follows. Fewer than ten sequences, one of ten events or more among
// them, are divided by time unless somebody says otherwise.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/base/choice.h"
#include "longspan/tasks/events/hawkes.h"

namespace longspan {

enum class Division : std::uint8_t { kAuto, kSequences, kTime };
constexpr Names<3> names_of(Division /*kind*/) {
  return {"events", "division", {"auto", "sequences", "time"}};
}

struct EventSets {
  std::vector<EventSequence> training, validation, test;
};

// Rising numbers with commas between; none of an empty text.
std::vector<double> edges_of(std::string_view text);

EventSets read_event_sets(const std::string& data, Division division,
                          std::span<const double> edges);

}  // namespace longspan
