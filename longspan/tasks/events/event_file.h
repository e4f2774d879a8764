// Sequences of events from files, in the shapes that people have them:
//
//   lines of JSON   {"t": [0.5, 1.25], "m": [0, 1]}        times, which do not go backwards, and types
//                   {"times": …, "types": …}, {"time_since_start": …, "type_event": …}    the same
//                   [{"time_since_start": 0.5, "type_event": 0}, …]                 event by event
//   .json           a list of such sequences (EasyTPP)
//   .csv            time,type or sequence,time,type in every line, or a time alone; below titles
//                   (event_columns.h) in any order; without a type events are of type 0
//
// A type is a whole number, or, with edges e_1 < e_2 < …, any number: how many edges are not above
// it.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "longspan/tasks/events/hawkes.h"

namespace longspan {

// More types than anything has that is one process.
inline constexpr std::int32_t kMostEventTypes = 4096;

// Throws Error, "[who] file:line: …", for what is no sequence.
std::vector<EventSequence> read_events(std::string_view who, const std::filesystem::path& path,
                                       std::span<const double> edges = {});
// One sequence, as a line of JSON has it; "[who] …" of what is none.
EventSequence event_sequence_from(std::string_view who, std::string_view text);

}  // namespace longspan
