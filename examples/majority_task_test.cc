#include "examples/majority_task.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "longspan/base/error.h"
#include "longspan/learning/trainer.h"

namespace longspan {
namespace majority_task_test {

TEST(MajorityTask, CountsTheOnes) {
  MajorityTask task({.length = 9});
  BatchMemory memory;
  const Batch batch = task.training_batch(1, 3, 20, memory);
  for (std::size_t row = 0; row < batch.batch; ++row) {
    const auto ones = std::ranges::count(batch.tokens.subspan(row * 9, 9), 1);
    EXPECT_EQ(batch.targets[row], ones > 4 ? 1 : 0);
  }
  EXPECT_GT(std::ranges::count(batch.targets, 1), 0);
  EXPECT_GT(std::ranges::count(batch.targets, 0), 0);
}

TEST(MajorityTask, ABatchIsAFunctionOfSeedAndStep) {
  MajorityTask task({});
  BatchMemory a;
  BatchMemory b;
  task.training_batch(1, 5, 4, a);
  task.training_batch(1, 6, 4, b);
  EXPECT_NE(a.tokens, b.tokens);
  task.training_batch(1, 5, 4, b);
  EXPECT_EQ(a.tokens, b.tokens);
}

// What it needs is enough to build a model that learns it.
TEST(MajorityTask, IsLearned) {
  MajorityTask task({.length = 15});
  const ModelNeeds needs = task.needs();
  ModelConfig config;
  config.family = needs.family;
  config.head = needs.head;
  config.classes = needs.classes;
  config.vocab = needs.vocabulary;
  config.max_length = needs.length;
  config.layers = 1;
  config.d_model = 16;
  config.pool = Pool::kMean;
  Model model(config);
  model.allocate(1);
  TrainConfig train;
  train.schedule.peak = 0.01F;
  Trainer trainer(model, train);
  BatchMemory memory;
  for (std::uint64_t step = 0; step < 60; ++step) {
    const Batch batch = task.training_batch(1, step, 32, memory);
    trainer.step({&batch, 1});
  }
  const LossSum sum = model.evaluate(task.batch(Split::kValidation, {.count = 100}, memory));
  EXPECT_GE(sum.correct, 90U);
}

TEST(MajorityTask, NeedsAWinner) { EXPECT_THROW(MajorityTask({.length = 4}), Error); }

}  // namespace majority_task_test
}  // namespace longspan
