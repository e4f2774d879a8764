#include "longspan/tasks/masked_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace masked_text_test {

// A text of eight letters, a half of all tokens 'a'.
std::string written(const testing::TemporaryDirectory& scratch) {
  std::string text;
  for (std::size_t i = 0; i < 40000; ++i) {
    text += random_below(5, i, 2) == 0 ? 'a' : static_cast<char>('b' + random_below(6, i, 7));
  }
  testing::write_bytes(scratch / "text", text);
  return (scratch / "text").string();
}

TEST(MaskedText, HidesAsPublished) {
  const testing::TemporaryDirectory scratch;
  MaskedTextTask task({.data = written(scratch), .length = 100});
  TextTask plain({.data = written(scratch), .length = 100});
  task.open();
  plain.open();
  EXPECT_EQ(task.needs().vocabulary, 9U);
  EXPECT_EQ(task.needs().head, HeadKind::kLanguage);
  EXPECT_EQ(task.needs().family, Family::kEncoder);
  BatchMemory memory;
  BatchMemory same;
  const Batch batch = task.training_batch(1, 2, 500, memory);
  const Batch before = plain.training_batch(1, 2, 500, same);
  double chosen = 0.0;
  double hidden = 0.0;
  double other = 0.0;
  for (std::size_t i = 0; i < 50000; ++i) {
    if (batch.targets[i] == kIgnoredTarget) {
      ASSERT_EQ(batch.tokens[i], before.tokens[i]);
      continue;
    }
    ++chosen;
    ASSERT_EQ(batch.targets[i], before.tokens[i]) << "what the token was";
    hidden += batch.tokens[i] == 8 ? 1 : 0;
    other += batch.tokens[i] != 8 && batch.tokens[i] != before.tokens[i] ? 1 : 0;
  }
  // Four standard deviations; a random token is the same one in eight times.
  const auto near = [](double count, double n, double p) {
    return std::abs(count / n - p) < 4.0 * std::sqrt(p * (1.0 - p) / n);
  };
  EXPECT_TRUE(near(chosen, 50000, 0.15)) << chosen;
  EXPECT_TRUE(near(hidden, chosen, 0.8)) << hidden / chosen;
  EXPECT_TRUE(near(other, chosen, 0.1 * 7 / 8)) << other / chosen;
}

TEST(MaskedText, AWindowIsHiddenAlikeWhereverItIs) {
  const testing::TemporaryDirectory scratch;
  MaskedTextTask task({.data = written(scratch), .length = 7});
  task.open();
  BatchMemory one;
  BatchMemory all;
  const Batch row = task.batch(Split::kValidation, {.first = 5, .count = 1}, one);
  const Batch rows = task.batch(Split::kValidation, {.first = 3, .count = 4}, all);
  EXPECT_TRUE(std::ranges::equal(row.tokens, rows.tokens.subspan(14, 7)));
  EXPECT_TRUE(std::ranges::equal(row.targets, rows.targets.subspan(14, 7)));
  for (std::size_t r = 0; r < 4; ++r) {
    EXPECT_NE(std::ranges::count(rows.targets.subspan(7 * r, 7), kIgnoredTarget), 7)
        << "every window has a target";
  }
}

TEST(MaskedText, IsJudgedBesideGuessing) {
  const testing::TemporaryDirectory scratch;
  MaskedTextTask task({.data = written(scratch), .length = 100});
  task.open();
  BatchMemory memory;
  Tally tally;
  const Batch batch = task.batch(Split::kValidation, {.first = 0, .count = 39}, memory);
  task.add(batch, {}, tally);
  tally.counted =
      3900 - static_cast<std::size_t>(std::ranges::count(batch.targets, kIgnoredTarget));
  const Judgement q = task.judge(Split::kValidation, tally);
  // Half of the tokens have probability 1/2, the others 1/14 each.
  EXPECT_NEAR(q.metrics[3].value, 0.5 * std::log(2.0) + 0.5 * std::log(14.0), 0.1);
  EXPECT_EQ(q.metrics[3].name, "unigram_loss");
}

}  // namespace masked_text_test
}  // namespace longspan
