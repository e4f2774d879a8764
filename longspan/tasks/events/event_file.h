// Sequences of events from lines of JSON, in the shapes that people have them:
//
//   {"t": [0.5, 1.25], "m": [0, 1]}                  times, which do not go backwards, and types
//   {"times": …, "types": …}, {"time_since_start": …, "type_event": …}    the same
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "longspan/tasks/events/hawkes.h"

namespace longspan {

// More types than anything has that is one process.
inline constexpr std::int32_t kMostEventTypes = 4096;

std::vector<EventSequence> read_events(std::string_view who, const std::filesystem::path& path);

}  // namespace longspan
