#include "longspan/tasks/reverse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace reverse_test {

using testing::message_of;

TEST(Reverse, TargetsAreTheSourceBackwardsAndEnd) {
  ReverseTask task({.length = 6, .symbols = 4});
  BatchMemory memory;
  const Batch batch = task.training_batch(1, 9, 5, memory);
  ASSERT_EQ(batch.length, 7U);
  ASSERT_EQ(batch.source_length, 6U);
  for (std::size_t row = 0; row < 5; ++row) {
    const auto source = batch.source.subspan(row * 6, 6);
    const auto tokens = batch.tokens.subspan(row * 7, 7);
    const auto targets = batch.targets.subspan(row * 7, 7);
    for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(targets[i], source[5 - i]);
    EXPECT_EQ(targets[6], 0);
    EXPECT_EQ(tokens[0], 0);
    EXPECT_TRUE(std::ranges::equal(tokens.last(6), targets.first(6)));
  }
}

TEST(Reverse, ABatchIsAFunctionOfSeedAndStep) {
  ReverseTask task(ReverseTask::Config{});
  BatchMemory a;
  BatchMemory b;
  task.training_batch(1, 5, 4, a);
  task.training_batch(1, 6, 4, b);
  EXPECT_NE(a.source, b.source);
  task.training_batch(1, 5, 4, b);
  EXPECT_EQ(a.source, b.source);
  EXPECT_EQ(a.targets, b.targets);
}

// Scores that answer two of three sequences without a fault.
TEST(Reverse, CountsWholeSequences) {
  ReverseTask task({.length = 2, .symbols = 3});
  BatchMemory memory;
  const Batch batch = task.batch(Split::kValidation, {.first = 4, .count = 3}, memory);
  std::vector<float> scores(9 * 4);
  for (std::size_t row = 0; row < 9; ++row) {
    scores[row * 4 + static_cast<std::size_t>(batch.targets[row])] = 1.0F;
  }
  scores[4 * 4 + static_cast<std::size_t>((batch.targets[4] + 1) % 4)] = 2.0F;
  Tally tally{.loss = 1.8, .counted = 9, .correct = 8, .sequences = 3};
  task.add(batch, {scores.data(), 9, 4}, tally);
  EXPECT_EQ(tally.perfect, 2U);
  const Judgement q = task.judge(Split::kValidation, tally);
  EXPECT_DOUBLE_EQ(q.loss(), 0.2);
  EXPECT_DOUBLE_EQ(q.metrics[1].value, 8.0 / 9.0);
  EXPECT_EQ(q.metrics[2].name, "sequence_accuracy");
  EXPECT_DOUBLE_EQ(q.metrics[2].value, 2.0 / 3.0);
}

TEST(Reverse, AsksForAnEncoderAndADecoder) {
  const ReverseTask task({.length = 5, .symbols = 9});
  EXPECT_EQ(task.needs().family, "encoder-decoder");
  EXPECT_EQ(task.needs().length, 6U);
  EXPECT_EQ(task.needs().source_length, 5U);
  EXPECT_EQ(task.boundary(), 0);
  EXPECT_EQ(task.encode("7 8"), (std::vector<std::int32_t>{7, 8}));
  EXPECT_EQ(message_of([&] { task.encode("1 2 3 4 5 6"); }),
            "[reverse] 6 symbols; the model reads at most 5");
  EXPECT_NE(message_of([] { ReverseTask({.length = 0, .symbols = 3}); }), "");
}

}  // namespace reverse_test
}  // namespace longspan
