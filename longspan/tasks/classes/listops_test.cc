#include "longspan/tasks/classes/listops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include "longspan/tasks/classes/listops_expression.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace listops_test {

using testing::message_of;

std::vector<std::uint8_t> tokens_of(const std::string& text) {
  std::istringstream words(text);
  std::vector<std::uint8_t> tokens;
  for (std::string word; words >> word;) tokens.push_back(listops_token(word).value());
  return tokens;
}

TEST(ListOps, ValuesAreThoseOfTheOperators) {
  const auto value = [](const char* text) { return listops_value(tokens_of(text)); };
  EXPECT_EQ(value("7"), 7);
  EXPECT_EQ(value("[MIN 2 9 [SM 4 8 ] ]"), 2);
  EXPECT_EQ(value("[MAX 4 3 [MIN 2 3 ] 1 0 [MED 1 5 8 9 2 ] ]"), 5);
  EXPECT_EQ(value("[MED 1 2 ]"), 1) << "the integer part of 1.5";
  EXPECT_EQ(value("[MED 9 0 8 1 ]"), 4);
  EXPECT_EQ(value("[SM 9 9 9 ]"), 7);
  EXPECT_EQ(value("[SM [MAX 6 ] ]"), 6);
}

TEST(ListOps, WhatIsNoExpressionHasNoValue) {
  const auto why = [](const char* text) {
    return message_of([&] { listops_value(tokens_of(text)); });
  };
  EXPECT_EQ(why(""), "no tokens; need an expression");
  EXPECT_EQ(why("[MIN 2"), "1 list is not closed; need ']'");
  EXPECT_EQ(why("[MIN ]"), "token 2: [MIN of nothing; need an argument");
  EXPECT_EQ(why("2 3"), "token 2: the expression has ended; need one expression");
  EXPECT_EQ(why("]"), "token 1: ']' closes nothing");
  EXPECT_EQ(why("[MIN 2 ] ]"), "token 4: the expression has ended; need one expression");
}

TEST(ListOps, TheAuthorsLabelsAreTheValues) {
  ListOpsTask task({.source = {.data = LONGSPAN_SOURCE_DIR "/tests/data/listops/nyu_test.tsv"}});
  task.open();  // refuses a label that is not the value
  EXPECT_EQ(task.examples(Split::kAll), 400U);
  EXPECT_EQ(task.examples(Split::kTraining), 320U);
  EXPECT_EQ(task.examples(Split::kValidation), 40U);
}

// Of a node: an operator with probability 1/4 above the greatest depth, 2 to 10 arguments, operators
// and digits alike; counted over trees that may have any length.
TEST(ListOps, ExpressionsAreDrawnByTheRules) {
  constexpr ListOpsRules kRules{.depth = 6, .arguments = 10, .above = 0, .below = 1'000'000};
  constexpr std::size_t kDrawn = 4000;
  std::size_t nodes = 0;
  std::size_t operators = 0;
  std::array<double, 4> kinds{};
  std::array<double, 10> digits{};
  std::array<double, 11> arguments{};
  for (std::size_t i = 0; i < kDrawn; ++i) {
    std::vector<std::size_t> open;  // arguments so far
    for (const std::uint8_t t : draw_listops(derive(3, i), kRules)) {
      if (t == 14) {
        ++arguments.at(open.back());
        open.pop_back();
        continue;
      }
      const std::size_t depth = open.size() + 1;
      EXPECT_LE(depth, 6U);
      if (!open.empty()) ++open.back();
      if (depth < 6) ++nodes;
      if (t >= 10) {
        ++operators;
        ++kinds.at(t - 10U);
        open.push_back(0);
      } else {
        ++digits.at(t);
      }
    }
  }
  // Four standard deviations of a share p of n.
  const auto near = [](double count, double n, double p) {
    return std::abs(count / n - p) < 4.0 * std::sqrt(p * (1.0 - p) / n);
  };
  ASSERT_GT(operators, 5000U);
  EXPECT_TRUE(near(static_cast<double>(operators), static_cast<double>(nodes), 0.25));
  double all = 0.0;
  for (const double d : digits) all += d;
  for (const double d : digits) EXPECT_TRUE(near(d, all, 0.1)) << d / all;
  for (const double k : kinds) EXPECT_TRUE(near(k, static_cast<double>(operators), 0.25));
  for (std::size_t a = 0; a <= 10; ++a) {
    EXPECT_TRUE(near(arguments.at(a), static_cast<double>(operators), a < 2 ? 0.0 : 1.0 / 9.0) ||
                (a < 2 && arguments.at(a) == 0.0))
        << a << " arguments";
  }
}

TEST(ListOps, DrawsWhatWasAskedFor) {
  ListOpsTask task({.source = {.examples = 200, .held_out = 30}, .length = 300, .above = 100});
  task.open();
  EXPECT_EQ(task.examples(Split::kTraining), 200U);
  EXPECT_EQ(task.examples(Split::kTest), 30U);
  EXPECT_EQ(task.needs().classes, 10U);
  EXPECT_EQ(task.needs().length, 300U);
  EXPECT_EQ(task.needs().pool, Pool::kMean);
  BatchMemory memory;
  const Batch batch = task.training_batch(1, 2, 16, memory);
  for (std::size_t row = 0; row < 16; ++row) {
    const auto length = static_cast<std::size_t>(batch.lengths[row]);
    EXPECT_GT(length, 100U);
    EXPECT_LT(length, 300U);
    EXPECT_LE(length, batch.length);
    std::vector<std::uint8_t> tokens;
    for (std::size_t i = 0; i < length; ++i) {
      tokens.push_back(static_cast<std::uint8_t>(batch.tokens[row * batch.length + i]));
    }
    EXPECT_EQ(listops_value(tokens), batch.targets[row]);
  }
}

// An evaluation sorts its examples: each still comes once, with its own label.
TEST(ListOps, AnEvaluationSeesEveryExample) {
  ListOpsTask task({.source = {.examples = 10, .held_out = 50}, .length = 200, .above = 20});
  task.open();
  BatchMemory memory;
  std::vector<std::string> plain;
  std::vector<std::string> sorted;
  const auto take = [&](std::size_t first, std::vector<std::string>& to) {
    const Batch batch = task.batch(Split::kTest, {.first = first, .count = 10}, memory);
    for (std::size_t row = 0; row < 10; ++row) {
      std::string text;
      for (std::int32_t i = 0; i < batch.lengths[row]; ++i) {
        text += listops_word(static_cast<std::uint8_t>(
            batch.tokens[row * batch.length + static_cast<std::size_t>(i)]));
      }
      to.push_back(text + '=' + std::to_string(batch.targets[row]));
    }
  };
  for (std::size_t first = 0; first < 50; first += 10) take(first, plain);
  task.arrange(Split::kTest, 50);
  for (std::size_t first = 0; first < 50; first += 10) take(first, sorted);
  EXPECT_NE(plain, sorted);
  std::ranges::sort(plain);
  std::ranges::sort(sorted);
  EXPECT_EQ(plain, sorted);
}

TEST(ListOps, ReadsTheFilesOfOthers) {
  const testing::TemporaryDirectory scratch;
  testing::write_bytes(scratch / "basic_train.tsv",
                       "Source\tTarget\n( ( ( [MAX 4 ) 3 ) ] )\t4\n7\t7\n");
  testing::write_bytes(scratch / "basic_val.tsv", "Source\tTarget\n( ( [SM 1 ) ] )\t1\n");
  ListOpsTask task({.source = {.data = scratch.path().string()}});
  task.open();
  EXPECT_EQ(task.examples(Split::kTraining), 2U);
  EXPECT_EQ(task.examples(Split::kValidation), 1U);
  EXPECT_EQ(task.examples(Split::kTest), 0U);
  EXPECT_EQ(task.held_out(), Split::kValidation);
}

TEST(ListOps, BadLinesAreRefusedByTheirNumber) {
  const testing::TemporaryDirectory scratch;
  const std::string file = (scratch / "a.tsv").string();
  const auto why = [&](const std::string& text, std::size_t length = 2000) {
    testing::write_bytes(file, text);
    return message_of([&] { ListOpsTask({.source = {.data = file}, .length = length}).open(); });
  };
  const std::string at = "[listops] " + file + ":2: ";
  EXPECT_EQ(why("4\t4\n[MIN 2 3 ]\t3\n"), at + "the value is 2, not 3");
  EXPECT_EQ(why("4\t4\n[MIN 2 3 ]\n"), at + "no tab; need an expression, a tab and its value");
  EXPECT_EQ(why("4\t4\n[MIN 2 3 ]\t12\n"),
            at + "neither '[MIN 2 3 ]' nor '12' is a value; need 0 to 9");
  EXPECT_EQ(why("4\t4\n[MEAN 2 3 ]\t2\n"),
            at + "unknown token '[MEAN'; need digits, [MIN, [MAX, [MED, [SM and ]");
  EXPECT_EQ(why("4\t4\n[MIN 2\t2\n"), at + "1 list is not closed; need ']'");
  EXPECT_EQ(why("4\t4\n[MIN 2 3 ]\t2\n", 3), at + "4 tokens; need at most 3, or more --length");
  EXPECT_EQ(why("4\t4\n4\t4\n"),
            "[listops] " + file + ": all 2 examples are of class 4; need two classes");
}

TEST(ListOps, WhatIsReadIsNotDrawn) {
  const ListOpsTask drawn({});
  const ListOpsTask read({.source = {.data = "a.tsv"}});
  EXPECT_EQ(drawn.idle("above"), "");
  EXPECT_EQ(read.idle("above"), "--data, which is not drawn; need one of them");
  EXPECT_EQ(read.idle("length"), "");
}

TEST(ListOps, WhatCannotBeDrawnIsRefused) {
  EXPECT_NE(
      message_of([] {
        ListOpsTask({.source = {.examples = 50, .held_out = 2}, .length = 2, .above = 0}).open();
      }).find("there are hardly more than 10 expressions of fewer than 2 tokens"),
      std::string::npos);
  EXPECT_EQ(message_of([] { ListOpsTask({.length = 501}); }),
            "[listops] lengths above 500 and below 501; need room between them");
}

}  // namespace listops_test
}  // namespace longspan
