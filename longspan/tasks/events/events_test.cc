#include "longspan/tasks/events/events.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longspan/tasks/events/event_file.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace events_test {

using testing::message_of;
using testing::TemporaryDirectory;
using testing::write_bytes;

// Two sequences to train on, of which the first ends 3 before the window does.
std::string small_file(const TemporaryDirectory& scratch) {
  const auto path = scratch / "a_train.jsonl";
  write_bytes(path, "{\"t\":[1,2,5],\"m\":[0,1,0]}\n{\"t\":[2,6],\"m\":[1,1]}\n");
  write_bytes(scratch / "a_test.jsonl", "{\"times\":[4,4],\"types\":[1,0]}\n");
  return path.string();
}

TEST(Events, AreReadWithAWindow) {
  const TemporaryDirectory scratch;
  EventsTask task({.source = {.data = small_file(scratch)}, .window = 8.0});
  task.open();
  EXPECT_EQ(task.examples(Split::kTraining), 2);
  EXPECT_EQ(task.examples(Split::kValidation), 0);
  EXPECT_EQ(task.held_out(), Split::kTest);
  EXPECT_EQ(task.needs().vocabulary, 3);
  EXPECT_EQ(task.needs().classes, 6);
  EXPECT_EQ(task.needs().loss, "events-exponential");
  BatchMemory memory;
  const Batch b = task.batch(Split::kTraining, {.first = 0, .count = 2}, memory);
  ASSERT_EQ(b.length, 4);
  const float unit = 16.0F / 5.0F;  // of two windows with five events
  EXPECT_EQ(std::vector(b.tokens.begin(), b.tokens.end()),
            (std::vector<std::int32_t>{2, 0, 1, 0, 2, 1, 1, 0}));
  EXPECT_EQ(std::vector(b.targets.begin(), b.targets.end()),
            (std::vector<std::int32_t>{0, 1, 0, -2, 1, 1, -2, -1}));
  EXPECT_EQ(std::vector(b.lengths.begin(), b.lengths.end()), (std::vector<std::int32_t>{4, 3}));
  const std::vector<float> gaps = {1, 1, 3, 3, 2, 4, 2, 0};
  const std::vector<float> times = {0, 1, 2, 5, 0, 2, 6, 0};
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    EXPECT_FLOAT_EQ(b.values[i] * unit, gaps[i]) << i;
    EXPECT_FLOAT_EQ(b.times[i] * unit, times[i]) << i;
  }
}

TEST(Events, WithoutAWindowBeginWithTheFirst) {
  const TemporaryDirectory scratch;
  EventsTask task({.source = {.data = small_file(scratch)}, .decay = EventDecay::kAffine});
  task.open();
  EXPECT_EQ(task.needs().classes, 4);
  BatchMemory memory;
  const Batch b = task.batch(Split::kTraining, {.first = 0, .count = 1}, memory);
  EXPECT_EQ(std::vector(b.tokens.begin(), b.tokens.end()), (std::vector<std::int32_t>{0, 1, 0}));
  EXPECT_EQ(std::vector(b.targets.begin(), b.targets.end()), (std::vector<std::int32_t>{1, 0, -1}));
}

// Every event that another one precedes is asked for once, however the sequence is cut.
TEST(Events, PiecesLoseNothing) {
  std::size_t whole = 0;
  for (const std::size_t length : {1000U, 40U, 7U, 2U}) {
    EventsTask task({.source = {.examples = 6, .held_out = 2}, .length = length, .window = 50.0});
    task.open();
    BatchMemory memory;
    const Batch all = task.batch(Split::kTraining,
                                 {.first = 0, .count = task.examples(Split::kTraining)}, memory);
    EXPECT_LE(all.length, length);
    std::size_t events = 0;
    double time = 0.0;
    for (std::size_t i = 0; i < all.targets.size(); ++i) {
      if (all.targets[i] >= 0) ++events;
      if (all.targets[i] != kIgnoredTarget) time += all.values[i];
    }
    if (whole == 0) whole = events;
    EXPECT_EQ(events, whole) << length;
    // Six windows of 50 in mean gaps; a last piece without an event is left out.
    EXPECT_NEAR(time, static_cast<double>(whole), 0.05 * static_cast<double>(whole)) << length;
  }
}

TEST(Events, BatchesAreAFunctionOfSeedAndStep) {
  EventsTask a({.source = {.examples = 20, .held_out = 2}, .window = 30.0});
  EventsTask b({.source = {.examples = 20, .held_out = 2}, .window = 30.0});
  a.open();
  b.open();
  BatchMemory first;
  BatchMemory second;
  a.training_batch(1, 0, 4, first);
  a.training_batch(1, 9, 4, first);
  b.training_batch(1, 9, 4, second);
  EXPECT_EQ(first.tokens, second.tokens);
  EXPECT_EQ(first.values, second.values);
}

// A constant intensity is the Poisson process that the judgement sets beside it.
TEST(Events, ThePoissonProcessIsSetBeside) {
  EventsTask task({.source = {.examples = 30, .held_out = 10}, .window = 100.0});
  task.open();
  const Judgement j = task.judge(Split::kTraining, {.loss = 100.0, .counted = 100});
  ASSERT_EQ(j.metrics.size(), 4);
  EXPECT_EQ(j.metrics[3].name, "poisson");
  double counted = 0.0;
  std::vector<double> by_type(2, 0.0);
  BatchMemory memory;
  const Batch all = task.batch(Split::kTraining, {.first = 0, .count = 30}, memory);
  for (const std::int32_t t : all.targets) {
    if (t < 0) continue;
    by_type[static_cast<std::size_t>(t)] += 1.0;
    counted += 1.0;
  }
  double want = -1.0;  // ∫ Σ λ is the number of events
  for (const double n : by_type) want += n / counted * std::log(n / (30 * 100.0));
  EXPECT_NEAR(j.metrics[3].value, want, 1e-5);
}

TEST(Events, BadLinesHaveASentence) {
  const TemporaryDirectory scratch;
  const auto path = scratch / "x.jsonl";
  const auto why = [&](const std::string& line) {
    write_bytes(path, "{\"t\":[1],\"m\":[0]}\n" + line + "\n");
    const std::string message = message_of([&] { read_events("events", path); });
    const std::string opening = "[events] " + path.string() + ":2: ";
    EXPECT_TRUE(message.starts_with(opening)) << message;
    return message.substr(std::min(message.size(), opening.size()));
  };
  EXPECT_EQ(why("1,2"), "no object of JSON; need {\"t\": […], \"m\": […]}");
  EXPECT_EQ(why("{\"t\":[1]}"), "no times and types; need \"t\" and \"m\"");
  EXPECT_EQ(why("{\"t\":[1,2],\"m\":[0]}"),
            "'t' and 'm'; need two lists of one length, of one event at least");
  EXPECT_EQ(why("{\"t\":[2,1],\"m\":[0,0]}"),
            "time 1 is 1 after 2; need times that do not go backwards");
  EXPECT_EQ(why("{\"t\":[1,\"b\"],\"m\":[0,0]}"),
            "time 1 is no number from -1e+15 to 1e+15; need one");
  EXPECT_EQ(why("{\"t\":[1,1e300],\"m\":[0,0]}"),
            "time 1 is no number from -1e+15 to 1e+15; need one");
  EXPECT_EQ(why("{\"t\":[1,2],\"m\":[0,-1]}"),
            "type 1 of an event is -1; need a whole number from 0 to 4095");
  write_bytes(path, "{\"t\":[1],\"m\":[0]}\n");
  EXPECT_EQ(message_of([&] { EventsTask({.source = {.data = path.string()}}).open(); }),
            "[events] " + path.string() +
                " has no events that follow others; need sequences of two at least");
  write_bytes(path, "{\"t\":[1,9],\"m\":[0,0]}\n");
  EXPECT_EQ(
      message_of([&] { EventsTask({.source = {.data = path.string()}, .window = 5.0}).open(); }),
      "[events] an event at 9; need all within the window of 0 to 5");
}

}  // namespace events_test
}  // namespace longspan
