#include "longspan/tasks/pairs/translate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace translate_test {

using testing::message_of;

TEST(Translate, GrammarsAreWhatTheySay) {
  std::set<std::string> sources;
  for (std::uint64_t i = 0; i < 500; ++i) {
    const TextPair turned = draw_pair(Grammar::kReverse, 1, i, 9);
    EXPECT_EQ(std::string(turned.source.rbegin(), turned.source.rend()), turned.target);
    EXPECT_LE(turned.source.size(), 9U);
    const TextPair sorted = draw_pair(Grammar::kSort, 1, i, 9);
    EXPECT_TRUE(std::ranges::is_sorted(sorted.target));
    EXPECT_TRUE(std::ranges::is_permutation(sorted.source, sorted.target));
    const TextPair date = draw_pair(Grammar::kDates, 1, i, 26);
    EXPECT_EQ(date.target.size(), 10U);
    EXPECT_LE(date.source.size(), longest_of(Grammar::kDates, 0));
    EXPECT_NE(date.source.find(date.target.substr(0, 4)), std::string::npos) << date.source;
    sources.insert(date.source);
  }
  EXPECT_GT(sources.size(), 450U);
  const auto has = [&](std::string_view part) {
    return std::ranges::any_of(
        sources, [&](const std::string& s) { return s.find(part) != std::string::npos; });
  };
  for (const char* part :
       {"the 1st of ", "the 2nd of ", "the 3rd of ", "th of ", "/", ", ", "Feb "}) {
    EXPECT_TRUE(has(part)) << part;
  }
  for (const char* part : {"11st", "12nd", "13rd", "31 Feb", "30 Feb"}) {
    EXPECT_FALSE(has(part)) << part;
  }
}

// Sources and targets of different lengths, padded; the decoder's input is its target one later.
TEST(Translate, BatchesArePaddedPairs) {
  const testing::TemporaryDirectory scratch;
  testing::write_bytes(scratch / "a_train.tsv", "abc\tx\na\txyz\n");
  TranslateTask task({.source = {.data = (scratch / "a_train.tsv").string()}, .length = 5});
  task.open();
  EXPECT_EQ(task.needs().vocabulary, 7U);  // a b c x y z, and the boundary
  EXPECT_EQ(task.boundary(), 6);
  BatchMemory memory;
  const Batch batch = task.batch(Split::kTraining, {.first = 0, .count = 2}, memory);
  const auto equal = [](std::span<const std::int32_t> a, std::vector<std::int32_t> b) {
    return std::ranges::equal(a, b);
  };
  EXPECT_TRUE(equal(batch.source, {0, 1, 2, 0, 0, 0}));
  EXPECT_TRUE(equal(batch.source_lengths, {3, 1}));
  EXPECT_TRUE(equal(batch.tokens, {6, 3, 6, 6, 6, 3, 4, 5}));
  EXPECT_TRUE(equal(batch.targets, {3, 6, -1, -1, 3, 4, 5, 6}));
  EXPECT_EQ(task.decode(task.encode("cab")), "cab");
}

TEST(Translate, WhatJudgesWasNotTrainedOn) {
  TranslateTask task(
      {.source = {.examples = 500, .held_out = 50}, .grammar = Grammar::kSort, .length = 3});
  task.open();
  std::set<std::vector<std::int32_t>> trained;
  BatchMemory memory;
  const auto sources = [&](Split split, std::size_t count) {
    std::set<std::vector<std::int32_t>> all;
    for (std::size_t i = 0; i < count; ++i) {
      const Batch one = task.batch(split, {.first = i, .count = 1}, memory);
      all.emplace(one.source.begin(), one.source.end());
    }
    return all;
  };
  trained = sources(Split::kTraining, 500);
  for (const auto& held : sources(Split::kTest, 50)) EXPECT_FALSE(trained.contains(held));
}

TEST(Translate, ALineOfTitlesIsNoPair) {
  const testing::TemporaryDirectory scratch;
  const std::string file = (scratch / "a_train.tsv").string();
  testing::write_bytes(file, "source\tTarget\na\tb\nsource\ttarget\n");
  TranslateTask task({.source = {.data = file}, .length = 8});
  task.open();
  EXPECT_EQ(task.examples(Split::kTraining), 2U) << "but of the first line, it is one";
}

TEST(Translate, BadLinesAreRefusedByTheirNumber) {
  const testing::TemporaryDirectory scratch;
  const std::string file = (scratch / "a.tsv").string();
  const auto why = [&](const std::string& line) {
    testing::write_bytes(file, "a\tb\n" + line + "\n");
    return message_of([&] { TranslateTask({.source = {.data = file}, .length = 4}).open(); });
  };
  const std::string at = "[translate] " + file + ":2: ";
  EXPECT_EQ(why("abc"), at + "no tab; need a source, a tab and a target");
  EXPECT_EQ(why("\tabc"), at + "an empty side; need a source and a target");
  EXPECT_EQ(why("a\tb\tc"), at + "two tabs; need one");
  EXPECT_EQ(why("abcde\tb"), at + "'abcde' has 5 characters; need at most 4, or more --length");
  EXPECT_EQ(why("ab\tb\xFF"), at + "'b\xFF' is not UTF-8; need UTF-8 text");
  TranslateTask trained({.source = {.data = file}, .length = 4});
  trained.use(Vocabulary::characters({'a', 'b', 'x', 'y'}));
  testing::write_bytes(file, "a\tb\nab\té\n");
  EXPECT_EQ(message_of([&] { trained.open(); }),
            at + "the character U+00E9; the 4 known do not include it");
  EXPECT_EQ(message_of([] { TranslateTask({.length = 10}); }),
            "[translate] length 10; need at least 26 for dates");
}

}  // namespace translate_test
}  // namespace longspan
