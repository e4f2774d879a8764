#include "longspan/tasks/recall.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "longspan/testing/recall_rule.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace recall_test {

using testing::message_of;

void expect_recall(const Batch& batch, std::size_t pairs, std::int32_t symbols) {
  EXPECT_EQ(testing::recall_fault(batch, {pairs, symbols}), "");
}

TEST(Recall, KeysAreAnsweredByTheirValues) {
  RecallTask task({.length = 64, .pairs = 4, .symbols = 8192});
  BatchMemory memory;
  expect_recall(task.training_batch(1, 2, 32, memory), 4, 8192);
  expect_recall(task.batch(Split::kValidation, {.first = 3, .count = 5}, memory), 4, 8192);
  RecallTask tight({.length = 28, .pairs = 7, .symbols = 16});
  expect_recall(tight.training_batch(1, 2, 32, memory), 7, 16);
}

// Slot i of 28 has the weight i^(a−1), a = 0.01: of one pair the first slot is drawn with
// probability 1 / Σ i^(a−1).
TEST(Recall, NearSlotsAreFavoured) {
  RecallTask task({.length = 58, .pairs = 1, .symbols = 64});
  BatchMemory memory;
  constexpr std::size_t kRows = 20000;
  const Batch batch = task.training_batch(1, 0, kRows, memory);
  std::vector<double> count(28);
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t i = 2; i < 58; ++i) {
      if (batch.targets[row * 58 + i] != kIgnoredTarget) ++count[(i - 2) / 2];
    }
  }
  double sum = 0.0;
  for (int i = 1; i <= 28; ++i) sum += std::pow(i, -0.99);
  for (const int i : {1, 2, 5, 28}) {
    const double p = std::pow(i, -0.99) / sum;
    EXPECT_NEAR(count[static_cast<std::size_t>(i - 1)] / kRows, p,
                4.0 * std::sqrt(p * (1.0 - p) / kRows))
        << i;
  }
}

// Batches of one kind each, in the published shares, each example once in a pass.
TEST(Recall, TheProtocolOfZoologyHasItsKinds) {
  RecallTask task({.protocol = RecallProtocol::kZoology});
  EXPECT_FALSE(task.endless());
  EXPECT_EQ(task.examples(Split::kTraining), 180000U);
  EXPECT_EQ(task.examples(Split::kValidation), 7000U);
  EXPECT_EQ(task.needs().vocabulary, 8192U);
  EXPECT_EQ(task.needs().length, 256U);
  EXPECT_EQ(task.needs().judged_length, 1024U);
  EXPECT_EQ(task.protocol().steps, 32U * 180000 / 256);
  constexpr std::size_t kRows = 2000;
  BatchMemory memory;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> batches;
  std::set<std::vector<std::int32_t>> shortest;
  for (std::uint64_t step = 90; step < 180; ++step) {
    const Batch batch = task.training_batch(3, step, kRows, memory);
    const auto first = batch.targets.first(batch.length);
    const auto ignored = static_cast<std::size_t>(std::ranges::count(first, kIgnoredTarget));
    const std::size_t pairs = batch.length - ignored;
    EXPECT_TRUE(batch.lengths.empty());
    expect_recall({.batch = 20,
                   .length = batch.length,
                   .tokens = batch.tokens.first(20 * batch.length),
                   .targets = batch.targets.first(20 * batch.length)},
                  pairs, 8192);
    ++batches[{batch.length, pairs}];
    if (batch.length > 64) continue;
    for (std::size_t row = 0; row < kRows; ++row) {
      const auto tokens = batch.tokens.subspan(row * 64, 64);
      shortest.insert({tokens.begin(), tokens.end()});
    }
  }
  const std::map<std::pair<std::size_t, std::size_t>, std::size_t> published = {
      {{64, 4}, 50}, {{128, 8}, 10}, {{256, 16}, 10}, {{256, 32}, 10}, {{256, 64}, 10}};
  EXPECT_EQ(batches, published);
  EXPECT_EQ(shortest.size(), 100000U);
}

TEST(Recall, APassOfZoologyIsAFunctionOfTheStep) {
  RecallTask task({.protocol = RecallProtocol::kZoology});
  RecallTask again({.protocol = RecallProtocol::kZoology});
  BatchMemory memory;
  BatchMemory same;
  task.training_batch(1, 5000, 32, memory);
  task.training_batch(1, 7, 32, memory);
  again.training_batch(1, 7, 32, same);
  EXPECT_EQ(memory.tokens, same.tokens);
  again.training_batch(2, 7, 32, same);
  EXPECT_NE(memory.tokens, same.tokens);
}

// Some of every kind, sorted, so that few batches are padded.
TEST(Recall, ZoologyIsJudgedBySevenKinds) {
  RecallTask task({.held_out = 3, .protocol = RecallProtocol::kZoology});
  BatchMemory memory;
  task.arrange(Split::kValidation, 14);
  Tally tally;
  for (std::size_t k = 0; k < 7; ++k) {
    const Batch batch = task.batch(Split::kValidation, {.first = 2 * k, .count = 2}, memory);
    EXPECT_TRUE(batch.lengths.empty());
    EXPECT_EQ(task.arranged(2 * k), k);
    const std::size_t pairs = std::size_t{4} << k;
    expect_recall(batch, pairs, 8192);
    EXPECT_EQ(batch.length, std::max<std::size_t>(64, 4 * pairs));
    // All right but for the last kind's.
    std::vector<float> scores(batch.tokens.size() * 8192);
    for (std::size_t i = 0; k < 6 && i < batch.targets.size(); ++i) {
      if (batch.targets[i] >= 0) scores[i * 8192 + static_cast<std::size_t>(batch.targets[i])] = 1;
    }
    task.add(batch, {scores.data(), batch.tokens.size(), 8192}, tally);
  }
  tally.counted = 1;
  const Judgement q = task.judge(Split::kValidation, tally);
  EXPECT_EQ(q.at("accuracy_of_128_pairs"), 1.0);
  EXPECT_EQ(q.at("accuracy_of_256_pairs"), 0.0);
  const Batch mixed = task.batch(Split::kValidation, {.first = 3, .count = 2}, memory);
  EXPECT_EQ(mixed.length, 64U);
  EXPECT_TRUE(mixed.lengths.empty());
  const Batch padded = task.batch(Split::kValidation, {.first = 11, .count = 2}, memory);
  EXPECT_EQ(padded.length, 1024U);
  EXPECT_EQ(padded.lengths[0], 512);
  EXPECT_EQ(std::ranges::count(padded.targets.subspan(512, 512), kIgnoredTarget), 512);
}

TEST(Recall, ZoologyHasItsOwnLengths) {
  EXPECT_EQ(RecallTask({.protocol = RecallProtocol::kZoology}).idle("length"),
            "the protocol zoology, which has its own; need quick");
  EXPECT_EQ(RecallTask({.protocol = RecallProtocol::kZoology}).idle("held_out"), "");
  EXPECT_EQ(RecallTask({}).idle("length"), "");
}

TEST(Recall, WhatDoesNotFitIsRefused) {
  EXPECT_EQ(message_of([] { RecallTask({.length = 31, .pairs = 4}); }),
            "[recall] length 31; need an even number");
  EXPECT_EQ(message_of([] { RecallTask({.length = 30, .pairs = 8}); }),
            "[recall] 8 pairs in 30 tokens; need at least 32 tokens");
  EXPECT_EQ(message_of([] { RecallTask({.length = 64, .pairs = 8, .symbols = 16}); }),
            "[recall] 8 pairs of 16 symbols; need more than 16 symbols");
}

}  // namespace recall_test
}  // namespace longspan
