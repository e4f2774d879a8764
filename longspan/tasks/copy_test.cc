#include "longspan/tasks/copy.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace copy_test {

using testing::message_of;

// s = 0 w 0 w, read one token late; the first counted target is the second 0.
TEST(Copy, SequencesAreWrittenTwice) {
  CopyTask task({.length = 10, .symbols = 5});
  BatchMemory memory;
  const Batch batch = task.training_batch(1, 3, 7, memory);
  ASSERT_EQ(batch.batch, 7U);
  ASSERT_EQ(batch.length, 10U);
  for (std::size_t row = 0; row < 7; ++row) {
    const auto tokens = batch.tokens.subspan(row * 10, 10);
    const auto targets = batch.targets.subspan(row * 10, 10);
    EXPECT_EQ(tokens[0], 0);
    EXPECT_EQ(tokens[1], 0);  // s_0
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(targets[i], kIgnoredTarget);
    EXPECT_EQ(targets[5], 0) << "the first token of the second half";
    for (std::size_t i = 6; i < 10; ++i) {
      EXPECT_EQ(targets[i], tokens[i - 4]) << "w_i, four tokens and a 0 before";
      EXPECT_GE(targets[i], 1);
      EXPECT_LE(targets[i], 5);
    }
    EXPECT_TRUE(std::ranges::equal(tokens.last(4), targets.subspan(5, 4)));
  }
  EXPECT_EQ(std::ranges::count(batch.targets, kIgnoredTarget), 35);
}

TEST(Copy, ABatchIsAFunctionOfSeedAndStep) {
  CopyTask task({.length = 20, .symbols = 127});
  BatchMemory a;
  BatchMemory b;
  task.training_batch(1, 5, 4, a);
  task.training_batch(1, 6, 4, b);
  EXPECT_NE(a.tokens, b.tokens);
  task.training_batch(2, 5, 4, b);
  EXPECT_NE(a.tokens, b.tokens);
  task.training_batch(1, 5, 4, b);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.targets, b.targets);
  // Held-out sequences are those of their number, in batches of any size.
  task.batch(Split::kValidation, {.first = 2, .count = 3}, a);
  task.batch(Split::kValidation, {.first = 0, .count = 3, .stride = 2}, b);
  EXPECT_TRUE(
      std::ranges::equal(std::span(a.tokens).first(20), std::span(b.tokens).subspan(20, 20)));
  EXPECT_TRUE(
      std::ranges::equal(std::span(a.tokens).subspan(40, 20), std::span(b.tokens).last(20)));
}

// What is shown of a prompt is 0 w 0: the sequence, not the token that is read before it.
TEST(Copy, ShowsThePromptAsTheSequenceBegins) {
  const CopyTask task({.length = 8, .symbols = 9});
  const std::vector<std::int32_t> prompt = task.encode("1 2 3");
  EXPECT_EQ(task.decode(std::span(prompt).subspan(task.prelude())), "0 1 2 3 0 ");
}

TEST(Copy, AsksForADecoder) {
  const CopyTask task({.length = 64, .symbols = 9, .held_out = 30});
  EXPECT_EQ(task.needs().family, "decoder");
  EXPECT_EQ(task.needs().vocabulary, 10U);
  EXPECT_EQ(task.needs().length, 64U);
  EXPECT_EQ(task.examples(Split::kValidation), 30U);
  EXPECT_EQ(task.examples(Split::kTest), 0U);
  EXPECT_EQ(task.encode("7 8"), (std::vector<std::int32_t>{0, 0, 7, 8, 0}));
  const Judgement q =
      task.judge(Split::kValidation, {.loss = 10.0, .counted = 20, .correct = 15, .sequences = 2});
  EXPECT_DOUBLE_EQ(q.loss(), 0.5);
  EXPECT_EQ(q.line, "loss 0.5000, accuracy 75.00 %");
  EXPECT_EQ(message_of([] { CopyTask({.length = 5, .symbols = 3}); }),
            "[copy] length 5; need an even number of at least 4");
  EXPECT_NE(message_of([] { CopyTask({.length = 8, .symbols = 0}); }), "");
}

}  // namespace copy_test
}  // namespace longspan
