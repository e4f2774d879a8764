#include "longspan/tasks/pairs/retrieval.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <sstream>

#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace retrieval_test {

using testing::message_of;

std::string text_of(const Batch& batch, std::size_t row) {
  std::string text;
  for (std::int32_t i = 0; i < batch.lengths[row]; ++i) {
    text += static_cast<char>(batch.tokens[row * batch.length + static_cast<std::size_t>(i)]);
  }
  return text;
}

// The topics whose words a document has, by all of its words.
std::set<std::uint64_t> topics_of(RandomKey key, const std::string& text, std::size_t topics) {
  std::set<std::uint64_t> found;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    for (std::uint64_t t = 0; t < topics; ++t) {
      for (std::uint64_t w = 0; w < 8; ++w) {
        if (topic_word(key, t, w) == word && word.size() > 4) found.insert(t);
      }
    }
  }
  return found;
}

TEST(Topics, AreSharedWhereTheLabelSaysSo) {
  const TopicRules rules{.length = 200, .topics = 5, .planted = 40};
  std::size_t seen = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    const TopicPair pair = draw_topics(7, i, rules);
    const auto first = topics_of(7, pair.first, rules.topics);
    const auto second = topics_of(7, pair.second, rules.topics);
    // Long words of a topic are hardly ever met by chance.
    if (first.size() != 1 || second.size() != 1) continue;
    ++seen;
    EXPECT_EQ(first == second, pair.related == 1) << pair.first << '\n' << pair.second;
  }
  EXPECT_GT(seen, 250U);
}

TEST(Topics, DocumentsHaveTheirLengthAndAtLeastOneWordOfTheTopic) {
  for (const std::size_t length : {kShortestTopic, std::size_t{17}, std::size_t{100}}) {
    const TopicRules rules{.length = length, .topics = 3, .planted = 0};
    for (std::uint64_t i = 0; i < 200; ++i) {
      const TopicPair pair = draw_topics(3, i, rules);
      for (const std::string& text : {pair.first, pair.second}) {
        EXPECT_LE(text.size(), length);
        EXPECT_GE(text.size() + 8, length / 2) << text;
        bool any = false;
        std::istringstream words(text);
        for (std::string word; words >> word;) {
          for (std::uint64_t w = 0; w < 3 * 8; ++w) any |= topic_word(3, w / 8, w % 8) == word;
        }
        EXPECT_TRUE(any) << text;
      }
    }
  }
}

// Neither the label nor the stream changes how long documents are; another seed draws others.
TEST(Topics, LengthsSayNothing) {
  std::array<double, 2> bytes = {};
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const TopicPair pair = draw_topics(1, i, {});
    bytes[static_cast<std::size_t>(pair.related)] +=
        static_cast<double>(pair.first.size() + pair.second.size()) / 1000.0;
    EXPECT_EQ(pair.first, draw_topics(1, i, {}).first);
    EXPECT_NE(pair.first, draw_topics(2, i, {}).first);
  }
  EXPECT_NEAR(bytes[0], bytes[1], 10.0);  // two standard errors are 5
}

TEST(Retrieval, IsDrawnInBalancedSplits) {
  RetrievalTask task({.source = {.examples = 60, .held_out = 20}, .length = 64});
  task.open();
  EXPECT_EQ(task.examples(Split::kTraining), 60U);
  EXPECT_EQ(task.examples(Split::kValidation), 20U);
  EXPECT_EQ(task.examples(Split::kTest), 20U);
  EXPECT_EQ(task.needs().head, HeadKind::kPairs);
  EXPECT_EQ(task.needs().family, Family::kEncoder);
  EXPECT_EQ(task.needs().classes, 2U);
  EXPECT_EQ(task.needs().length, 64U);
  EXPECT_EQ(task.checksum(), "");
  BatchMemory memory;
  for (const Split split : {Split::kTraining, Split::kValidation, Split::kTest}) {
    const std::size_t count = task.examples(split);
    const Batch batch = task.batch(split, {.first = 0, .count = count}, memory);
    EXPECT_EQ(batch.batch, 2 * count);
    ASSERT_EQ(batch.targets.size(), count);
    EXPECT_EQ(batch.lengths.size(), 2 * count);
    EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(batch.targets, 1)), count / 2);
  }
  // Nothing that judges is trained on.
  std::set<std::string> trained;
  const Batch all = task.batch(Split::kTraining, {.first = 0, .count = 60}, memory);
  for (std::size_t i = 0; i < 120; ++i) trained.insert(text_of(all, i));
  const Batch test = task.batch(Split::kTest, {.first = 0, .count = 20}, memory);
  for (std::size_t i = 0; i < 40; ++i) EXPECT_FALSE(trained.contains(text_of(test, i)));
}

// Sequences 2i and 2i + 1 are one pair with its own label, whatever the order.
TEST(Retrieval, BatchesKeepPairsTogether) {
  RetrievalTask task({.source = {.examples = 40, .held_out = 10}, .length = 100});
  task.open();
  BatchMemory whole, part;
  const Batch all = task.batch(Split::kTraining, {.first = 0, .count = 40}, whole);
  const auto place = [&](const Batch& batch, std::size_t i) {
    for (std::size_t at = 0; at < 40; ++at) {
      if (text_of(all, 2 * at) != text_of(batch, 2 * i)) continue;
      EXPECT_EQ(text_of(all, 2 * at + 1), text_of(batch, 2 * i + 1));
      EXPECT_EQ(all.targets[at], batch.targets[i]);
      return at;
    }
    ADD_FAILURE() << "a document of no example";
    return std::size_t{40};
  };
  std::set<std::size_t> seen;
  for (std::uint64_t step = 0; step < 5; ++step) {
    const Batch batch = task.training_batch(3, step, 8, part);
    ASSERT_EQ(batch.batch, 16U);
    for (std::size_t i = 0; i < 8; ++i) seen.insert(place(batch, i));
  }
  EXPECT_EQ(seen.size(), 40U) << "a pass has every pair once";
  task.arrange(Split::kTraining, 40);
  std::size_t before = 0;
  for (std::size_t first = 0; first < 40; first += 8) {
    const Batch batch = task.batch(Split::kTraining, {.first = first, .count = 8}, part);
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(place(batch, i), task.arranged(first + i));
    EXPECT_GE(batch.length, before) << "by rising length";
    before = batch.length;
  }
}

TEST(Retrieval, CountsPairs) {
  RetrievalTask task({.source = {.examples = 4, .held_out = 4}, .length = 32});
  task.open();
  BatchMemory memory;
  const Batch batch = task.batch(Split::kTest, {.first = 0, .count = 4}, memory);
  std::vector<float> scores = {2, 1, 0, 3, 0, 1, 0, 1};  // 0, 1, 1, 1 of 0, 1, 0, 1
  Tally tally{.loss = 2.0, .counted = 4, .correct = 3, .sequences = 4};
  task.add(batch, {scores.data(), 4, 2}, tally);
  const Judgement q = task.judge(Split::kTest, tally);
  EXPECT_EQ(q.counted, "pairs");
  EXPECT_EQ(q.subject, "4 test pairs");
  EXPECT_EQ(q.at("accuracy"), 0.75);
  EXPECT_EQ(q.at("accuracy_of_class_0"), 0.5);
  EXPECT_EQ(q.at("accuracy_of_class_1"), 1.0);
  EXPECT_EQ(q.at("majority"), 0.5);
}

TEST(Retrieval, ReadsThePublishedColumns) {
  const testing::TemporaryDirectory scratch;
  testing::write_bytes(scratch / "new_aan_pairs.train.tsv",
                       "1.0\tP01\tP02\tb'one text'\tb'another \\n one'\n"
                       "0.0\tP03\tP04\t\"a \"\"quoted\"\" one\twith a tab\"\tthe \"other\"\n");
  testing::write_bytes(scratch / "new_aan_pairs.eval.tsv", "0\tP05\tP06\tc\td\n1\tP1\tP2\te\tf\n");
  testing::write_bytes(scratch / "new_aan_pairs.test.tsv", "1\tP07\tP08\tg\th\n");
  // By its directory, or by the file to train on.
  for (const std::string& data :
       {scratch.path().string(), (scratch / "new_aan_pairs.train.tsv").string()}) {
    RetrievalTask task({.source = {.data = data}, .length = 14});
    task.open();
    EXPECT_EQ(task.examples(Split::kTraining), 2U);
    EXPECT_EQ(task.examples(Split::kValidation), 2U);
    EXPECT_EQ(task.examples(Split::kTest), 1U);
    EXPECT_EQ(task.needs().classes, 2U);
    EXPECT_NE(task.checksum(), "");
    BatchMemory memory;
    const Batch batch = task.batch(Split::kTraining, {.first = 0, .count = 2}, memory);
    EXPECT_EQ(text_of(batch, 0), "b'one text'");
    EXPECT_EQ(text_of(batch, 1), "b'another \\n o");
    EXPECT_EQ(text_of(batch, 2), "a \"quoted\" one");
    EXPECT_EQ(text_of(batch, 3), "the \"other\"");
    EXPECT_EQ(batch.targets[0], 1);
    EXPECT_EQ(batch.targets[1], 0);
  }
}

TEST(Retrieval, ReadsLinesOfJsonAndThreeColumns) {
  const testing::TemporaryDirectory scratch;
  const std::string file = (scratch / "pairs").string();
  testing::write_bytes(
      file,
      "{\"text1\": \"a\", \"text2\": \"b\", \"label\": 2, \"split\": \"train\"}\n"
      "{\"text1\": \"c\", \"text2\": \"d\", \"label\": \"0\", \"split\": \"train\"}\n"
      "{\"text1\": \"e\", \"text2\": \"f\", \"label\": 1.0, \"split\": \"test\"}\n");
  RetrievalTask lines({.source = {.data = file}});
  lines.open();
  EXPECT_EQ(lines.examples(Split::kTraining), 2U);
  EXPECT_EQ(lines.examples(Split::kTest), 1U);
  EXPECT_EQ(lines.needs().classes, 3U);
  std::string columns = "label\ttext1\ttext2\n";
  for (int i = 0; i < 10; ++i) columns += fmt::format("{}\tleft {}\tright {}\n", i % 2, i, i);
  testing::write_bytes(file, columns);
  RetrievalTask three({.source = {.data = file}});
  three.open();
  EXPECT_EQ(three.examples(Split::kTraining), 8U);
  EXPECT_EQ(three.examples(Split::kValidation), 1U);
  BatchMemory memory;
  const Batch batch = three.batch(Split::kTest, {.first = 0, .count = 1}, memory);
  EXPECT_EQ(text_of(batch, 0), "left 9");
  EXPECT_EQ(text_of(batch, 1), "right 9");
}

TEST(Retrieval, BadLinesAreRefusedByTheirNumber) {
  const testing::TemporaryDirectory scratch;
  const std::string file = (scratch / "a.tsv").string();
  const auto why = [&](const std::string& line) {
    testing::write_bytes(file, "1\tx\ty\n" + line + "\n");
    return message_of([&] { RetrievalTask({.source = {.data = file}}).open(); });
  };
  const std::string at = "[retrieval] " + file + ":2: ";
  EXPECT_EQ(why("1\ta\tb\tc"),
            at + "4 columns; need a label, two ids and two texts, or a label and two texts, with "
                 "tabs between them");
  EXPECT_EQ(why("related\ta\tb"), at + "label 'related'; need a whole number from 0 to 65535");
  EXPECT_EQ(why("-1\ta\tb"), at + "label '-1'; need a whole number from 0 to 65535");
  EXPECT_EQ(why("0.5\ta\tb"), at + "label '0.5'; need a whole number from 0 to 65535");
  EXPECT_EQ(why("1e9\ta\tb"), at + "label '1e9'; need a whole number from 0 to 65535");
  EXPECT_EQ(why("1\ta\t"), at + "a text is empty; need two");
  EXPECT_EQ(why("{\"text1\": 3}"), at + "no \"label\"; need one, a whole number");
  EXPECT_EQ(why(R"({"text1": "a", "label": 1})"), at + "no \"text2\"; need one, a string");
  EXPECT_EQ(why("{"), at + "not a JSON object; need {\"text1\": …, \"text2\": …, \"label\": …}");
  EXPECT_EQ(why(R"({"text1": "a", "text2": "b", "label": 1, "split": "mine"})"),
            at + "split 'mine'; need train, valid or test");
  EXPECT_EQ(why("1\ta\tb"),
            "[retrieval] " + file + ": all 2 examples are of class 1; need two classes");
}

TEST(Retrieval, OptionsOfDrawingSayNothingBesideData) {
  const RetrievalTask read({.source = {.data = "file"}});
  EXPECT_NE(read.idle("topics"), "");
  EXPECT_EQ(read.idle("length"), "");
  EXPECT_EQ(RetrievalTask({}).idle("topics"), "");
  EXPECT_EQ(message_of([] { RetrievalTask({.length = 15}); }),
            "[retrieval] documents of 15 bytes; need at least 16");
}

}  // namespace retrieval_test
}  // namespace longspan
