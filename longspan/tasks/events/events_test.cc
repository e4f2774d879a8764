#include "longspan/tasks/events/events.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longspan/tasks/events/waits.h"
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
  EventsTask task({.source = {.data = small_file(scratch)}, .decay = Decay::kAffine});
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
TEST(Events, OtherProcessesAreSetBeside) {
  EventsTask task({.source = {.examples = 30, .held_out = 10}, .window = 100.0});
  task.open();
  task.arrange(Split::kTraining, 30);
  const Judgement j = task.judge(Split::kTraining, {.loss = 100.0, .counted = 100});
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
  EXPECT_NEAR(j.at("poisson"), want, 1e-5);
  EXPECT_NEAR(j.at("poisson_accuracy"), std::max(by_type[0], by_type[1]) / counted, 1e-9);
  // The sequences are those of a Hawkes process.
  EXPECT_GT(j.at("hawkes"), j.at("poisson") + 0.2);
  EXPECT_GT(j.at("hawkes_accuracy"), j.at("poisson_accuracy"));
  EXPECT_LT(j.at("hawkes_rmse"), j.at("poisson_rmse"));
  EXPECT_GT(j.at("hawkes_ks_p"), 0.05);
  EXPECT_LT(j.at("poisson_ks_p"), 1e-6);
}

// Scores of a constant intensity are a Poisson process: its waits, and gaps that it stretches.
TEST(Events, ScoresAreJudgedByTheirWaits) {
  const TemporaryDirectory scratch;
  EventsTask task({.source = {.data = small_file(scratch)}, .window = 8.0});
  task.open();
  BatchMemory memory;
  const Batch b = task.batch(Split::kTraining, {.first = 0, .count = 2}, memory);
  const double level = 0.3;  // of each type
  const auto a = static_cast<float>(std::log(std::expm1(level)));
  std::vector<float> scores;
  for (std::size_t r = 0; r < b.targets.size(); ++r) {
    scores.insert(scores.end(), {a, a, a, a, 0.0F, 0.0F});
  }
  Tally tally{.loss = 1.0, .counted = 5};
  task.add(b, ConstMatrix(scores.data(), b.targets.size(), 6), tally);
  ASSERT_EQ(tally.rescaled.size(), 5);
  const double unit = 16.0 / 5.0;
  const double longest = 4.0 / unit;
  const double wait = (1.0 - std::exp(-2.0 * level * longest)) / (2.0 * level);
  const std::vector<double> gaps = {1, 1, 3, 2, 4};
  double squares = 0.0;
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    EXPECT_NEAR(tally.rescaled[i], 2.0 * level * gaps[i] / unit, 1e-6) << i;
    squares += (wait * unit - gaps[i]) * (wait * unit - gaps[i]);
  }
  const Judgement j = task.judge(Split::kTraining, tally);
  EXPECT_NEAR(j.at("rmse"), std::sqrt(squares / 5.0), 1e-4);
  EXPECT_EQ(j.at("ks"), exponential_fit(tally.rescaled).distance);
}

// One file, each of its sequences divided by time.
TEST(Events, AreDividedByTime) {
  const TemporaryDirectory scratch;
  std::string lines = "t_days,mag\n";
  for (int i = 0; i < 20; ++i) lines += std::to_string(i) + (i % 2 == 0 ? ",2.5\n" : ",1\n");
  write_bytes(scratch / "a.csv", lines);
  EventsTask task({.source = {.data = (scratch / "a.csv").string()},
                   .division = Division::kTime,
                   .edges = "2,2.5,3"});
  task.open();
  BatchMemory memory;
  const Batch train = task.batch(Split::kTraining, {.first = 0, .count = 1}, memory);
  EXPECT_EQ(train.length, 14);
  EXPECT_EQ(train.tokens[0], 2);
  EXPECT_EQ(train.tokens[1], 0);
  const Batch valid = task.batch(Split::kValidation, {.first = 0, .count = 1}, memory);
  EXPECT_EQ(valid.length, 3);  // two, and one before them
  EXPECT_EQ(std::vector(valid.targets.begin(), valid.targets.end()),
            (std::vector<std::int32_t>{2, 0, kIgnoredTarget}));
  EXPECT_EQ(task.batch(Split::kTest, {.first = 0, .count = 1}, memory).length, 5);
  EXPECT_EQ(message_of([] { EventsTask({.window = 3.0, .division = Division::kTime}); }),
            "[events] --window with --division time, whose parts begin later; need one of them");
  EXPECT_EQ(message_of([] { EventsTask({.edges = "1,2,"}); }),
            "[events] --edges is '1,2,'; need rising numbers with commas between");
  EXPECT_EQ(message_of([] { EventsTask({.edges = "1,1"}); }),
            "[events] --edges is '1,1'; need rising numbers with commas between");
  EXPECT_EQ(
      message_of([&] {
        EventsTask({.source = {.data = small_file(scratch)}, .division = Division::kTime}).open();
      }),
      "[events] --division time of " + (scratch / "a_train.jsonl").string() +
          ", which is divided; need one file");
}

TEST(Events, AskForTheirLoss) {
  for (const auto& [integration, loss] :
       {std::pair{Integration::kQuadrature, "events-affine-quadrature"},
        {Integration::kMonteCarlo, "events-affine-monte-carlo"}}) {
    const EventsTask task({.decay = Decay::kAffine, .integration = integration});
    EXPECT_EQ(task.needs().loss, loss);
  }
}

TEST(Events, DataThatDoNotFitHaveASentence) {
  const TemporaryDirectory scratch;
  const auto path = scratch / "x.jsonl";
  write_bytes(path, "{\"t\":[1],\"m\":[0]}\n");
  EXPECT_EQ(message_of([&] { EventsTask({.source = {.data = path.string()}}).open(); }),
            "[events] " + path.string() +
                " has no events that follow others; need sequences of two at least");
  write_bytes(path, "{\"t\":[1,9],\"m\":[0,0]}\n");
  EXPECT_EQ(
      message_of([&] { EventsTask({.source = {.data = path.string()}, .window = 5.0}).open(); }),
      "[events] " + path.string() + ": an event at 9; need all within the window of 0 to 5");
  write_bytes(path, "{\"t\":[1,1,1],\"m\":[0,0,0]}\n");
  EXPECT_EQ(message_of([&] { EventsTask({.source = {.data = path.string()}}).open(); }),
            "[events] " + path.string() + ": all events of a sequence have one time; need gaps");
}

// Nine are too few to hold a tenth out.
TEST(Events, FewSequencesAreDividedByTime) {
  const TemporaryDirectory scratch;
  const std::string path = (scratch / "a.jsonl").string();
  const auto held_out = [&](int sequences, double window) {
    std::string lines;
    for (int i = 0; i < sequences; ++i) {
      lines += R"({"t":[1,2,3,4,5,6,7,8,9,10],"m":[0,0,0,0,0,0,0,0,0,0]})"
               "\n";
    }
    write_bytes(path, lines);
    EventsTask task({.source = {.data = path}, .window = window});
    task.open();
    return std::pair(task.examples(Split::kValidation), task.examples(Split::kTest));
  };
  EXPECT_EQ(held_out(1, 0.0), (std::pair<std::size_t, std::size_t>(1, 1)));
  EXPECT_EQ(held_out(9, 0.0), (std::pair<std::size_t, std::size_t>(9, 9)));
  EXPECT_EQ(held_out(10, 0.0), (std::pair<std::size_t, std::size_t>(1, 1)));
  EXPECT_EQ(held_out(1, 20.0), (std::pair<std::size_t, std::size_t>(0, 0)));
}

// What was learned in days is not judged in hours.
TEST(Events, OtherDataAreCountedInTheTimeOfTraining) {
  const TemporaryDirectory scratch;
  const auto file = [&](const char* name, double gap) {
    std::string lines;
    for (int i = 0; i < 20; ++i) {
      lines += fmt::format("{{\"t\":[0,{},{}],\"m\":[0,{},0]}}\n", gap, 2 * gap, i % 2);
    }
    write_bytes(scratch / name, lines);
    return EventsTask::Config{.source = {.data = (scratch / name).string()}};
  };
  EventsTask days(file("days.jsonl", 0.5));
  days.open();
  EventsTask hours(file("hours.jsonl", 12.0));
  hours.use_learned(days.learned());
  hours.open();
  BatchMemory memory;
  const Batch batch = hours.batch(Split::kTest, {.first = 0, .count = 1}, memory);
  EXPECT_FLOAT_EQ(batch.values[0], 24.0F);
  const auto has = [](EventsTask& task, std::string_view metric) {
    task.arrange(Split::kTest, 1);
    const Judgement q = task.judge(Split::kTest, {.counted = 1});
    return std::ranges::any_of(q.metrics, [&](const Metric& m) { return m.name == metric; });
  };
  EXPECT_FALSE(has(hours, "poisson")) << "it was fitted to nothing";
  EventsTask again(file("days.jsonl", 0.5));
  again.use_learned(days.learned());
  again.open();
  EXPECT_TRUE(has(again, "poisson"));
  write_bytes(scratch / "days.jsonl", "{\"t\":[1,2],\"m\":[0,7]}\n");
  EXPECT_EQ(message_of([&] { again.open(); }), "[events] " + (scratch / "days.jsonl").string() +
                                                   ": an event of type 7; the model knows 0 to 1");
  EXPECT_EQ(message_of([&] {
              again.use_learned({{"types", "2"}, {"unit", "-1"}});
            }),
            "[events] 'unit' of what was learned is '-1'; need a number above 0");
}

}  // namespace events_test
}  // namespace longspan
