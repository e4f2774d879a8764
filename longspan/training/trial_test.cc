#include "longspan/training/trial.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace trial_test {

Protocol tiny() {
  return {.layers = 2,
          .d_model = 16,
          .heads = 1,
          .positions = PositionKind::kNone,
          .before = "conv:width=2",
          .steps = 20,
          .batch = 8,
          .learning_rate = 1e-2};
}

const TaskOptions kRecall = {
    {"length", "16"}, {"pairs", "2"}, {"symbols", "16"}, {"held_out", "50"}};

TrialResult trial(
    std::uint64_t seed, const TrialObserver& observer = [](std::uint64_t) { return false; }) {
  return run_trial(trial_config("recall", kRecall, tiny(), "linear", seed), observer);
}

TEST(Trial, IsAFunctionOfItsSeedAndLeavesNothing) {
  const testing::TemporaryDirectory scratch;
  const std::filesystem::path here = std::filesystem::current_path();
  std::filesystem::current_path(scratch.path());
  const TrialResult a = trial(1);
  const TrialResult b = trial(1);
  const TrialResult c = trial(2);
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
  std::filesystem::current_path(here);
  EXPECT_EQ(a.judgement.loss(), b.judgement.loss());
  EXPECT_NE(a.judgement.loss(), c.judgement.loss());
  ASSERT_EQ(a.curve.size(), 10);
  EXPECT_EQ(a.curve.front().step, 2);
  EXPECT_EQ(a.curve.back().step, 20);
  EXPECT_GT(a.step_seconds, 0.0);
  EXPECT_GE(a.seconds, 20 * a.step_seconds);
  EXPECT_GT(a.memory, 4 * 4 * a.parameters) << "weights, gradients and two averages";
}

TEST(Trial, OneSlowStepDecidesNothing) {
  EXPECT_EQ(median_of({}), 0.0);
  EXPECT_EQ(median_of({2.0, 1.0, 900.0}), 2.0);
  EXPECT_EQ(median_of({900.0, 1.0, 3.0, 2.0}), 2.5);
  std::uint64_t slow = 0;
  const TrialResult result = trial(1, [&](std::uint64_t step) {
    // The second call is that before the next step, which is as long then.
    if (step == 5 && slow++ == 1) std::this_thread::sleep_for(std::chrono::seconds(2));
    return false;
  });
  EXPECT_GE(slow, 2U);
  EXPECT_LT(result.step_seconds, 2.0 / 20) << "which is the mean";
}

TEST(Trial, GuessingIsWhatTheTaskSaysOfIt) {
  Judgement q{.metrics = {{"loss", 1.0, ""}, {"accuracy", 0.7, ""}, {"majority", 0.6, ""}}};
  EXPECT_EQ(guessed(q, "accuracy"), 0.6);
  EXPECT_EQ(guessed(q, "loss"), std::nullopt);
  q.metrics.push_back({"unigram_loss", 2.5, ""});
  EXPECT_EQ(guessed(q, "loss"), 2.5);
  q.metrics.push_back({"poisson", -1.5, ""});
  EXPECT_EQ(guessed(q, "log_likelihood"), -1.5);
}

TEST(Trial, HasTheMechanismInTurnWithWhatStandsBefore) {
  const RunConfig run = trial_config("recall", kRecall, tiny(), "linear", 7);
  EXPECT_EQ(run.model.attention, "conv:width=2|linear");
  EXPECT_EQ(run.model.init_deviation, 0.25F);
  EXPECT_EQ(run.train.seed, 7);
  Protocol plain = tiny();
  plain.before.clear();
  EXPECT_EQ(trial_config("recall", kRecall, plain, "linear", 7).model.attention, "linear");
}

// A state of the first layer's last input and of the second's features by values, whatever the
// length; keys and values of exact attention grow with it.
TEST(Trial, KnowsTheStateOfASequence) {
  const TrialResult linear = trial(1);
  ASSERT_TRUE(linear.state.has_value());
  EXPECT_EQ(
      *linear.state,
      trial_model(trial_config("recall", kRecall, tiny(), "linear", 1)).model->cache_bytes(1, 16));
  TaskOptions longer = kRecall;
  longer["length"] = "64";
  const auto state = [&](const TaskOptions& options, const char* attention) {
    const TrialModel m = trial_model(trial_config("recall", options, tiny(), attention, 1));
    return m.model->cache_bytes(1, m.shape.length);
  };
  EXPECT_EQ(state(kRecall, "linear"), state(longer, "linear"));
  EXPECT_LT(state(kRecall, "flash"), state(longer, "flash"));
}

// Pairs of sequences are booked as such, and learned: 250 answers are right by chance in 57.4 % or
// more of the cases once in a hundred times.
TEST(Trial, LearnsToTellPairsApart) {
  const TaskOptions options = {{"length", "48"},     {"topics", "4"},     {"planted", "60"},
                               {"examples", "2400"}, {"held_out", "250"}, {"data_seed", "1"}};
  const Protocol protocol{
      .layers = 1, .d_model = 32, .heads = 2, .steps = 150, .batch = 16, .learning_rate = 3e-3};
  RunConfig run = trial_config("retrieval", options, protocol, "flash", 1);
  run.train.schedule.warmup = 20;
  const TrialModel booked = trial_model(run);
  EXPECT_EQ(booked.shape.batch, 32U);
  EXPECT_EQ(booked.model->output_rows(booked.shape), 16U);
  const TrialResult result = run_trial(run, [](std::uint64_t) { return false; });
  EXPECT_EQ(result.judgement.counted, "pairs");
  EXPECT_EQ(result.judgement.count, 250U);
  EXPECT_GT(result.judgement.at("accuracy"), 0.574);
}

TEST(Trial, IsStopped) {
  std::uint64_t last = 0;
  const TrialResult stopped = trial(1, [&](std::uint64_t step) {
    last = step;
    return step == 3;
  });
  EXPECT_TRUE(stopped.interrupted);
  EXPECT_EQ(last, 3);
}

}  // namespace trial_test
}  // namespace longspan
