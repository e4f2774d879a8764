// Sequences of events in each of their shapes, read and batched.
#include "longspan/tasks/events/event_file.h"

#include <cmath>

#include "longspan/tasks/events/events.h"
#include "longspan/testing/temporary_directory.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/fuzz/tree.h"

namespace longspan::fuzz {

namespace {

const std::vector<nlohmann::json>& event_trees() {
  using nlohmann::json;
  static const std::vector<json> trees = {
      {{{"time_since_start", {0.0, 0.5, 2.0}}, {"type_event", {0, 1, 1}}},
       {{"t", {1, 2, 2.5, 7}}, {"m", {1, 0, 1, 0}}}},
      json::array({json::array({{{"time_since_start", 0.5}, {"type_event", 0}},
                                {{"time_since_start", 1.5}, {"type_event", 2}}}),
                   json::array({{{"time_since_start", 3}, {"type_event", 1}}})})};
  return trees;
}

void use_events(const std::filesystem::path& path) {
  for (const EventSequence& sequence : read_events("events", path)) {
    demand(sequence.times.size() == sequence.types.size(), "a type for every time");
    for (std::size_t i = 0; i < sequence.times.size(); ++i) {
      demand(std::isfinite(sequence.times[i]), "finite times");
      demand(i == 0 || sequence.times[i] >= sequence.times[i - 1], "times that do not go back");
      demand(sequence.types[i] >= 0 && sequence.types[i] < kMostEventTypes, "types in range");
    }
  }
  EventsTask task({.source = {.data = path.string()}, .length = 4});
  task.open();
  BatchMemory memory;
  task.training_batch(1, 2, 3, memory);
}

}  // namespace

int fuzz_events(Bytes input) {
  for (const char* name : {"events.jsonl", "events.json", "events.csv"}) {
    const std::filesystem::path path = scratch() / name;
    testing::write_bytes(
        path, edits(input) ? json_text(edited(event_trees(), input)) : std::string(text_of(input)));
    outcome_of([&] { use_events(path); });
  }
  return 0;
}

}  // namespace longspan::fuzz
