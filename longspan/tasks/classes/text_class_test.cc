#include "longspan/tasks/classes/text_class.h"

#include <gtest/gtest.h>

#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace text_class_test {

using testing::message_of;

std::string text_of(const Batch& batch, std::size_t row) {
  std::string text;
  for (std::int32_t i = 0; i < batch.lengths[row]; ++i) {
    text += static_cast<char>(batch.tokens[row * batch.length + static_cast<std::size_t>(i)]);
  }
  return text;
}

TEST(TextClass, ReadsLinesOfJson) {
  const testing::TemporaryDirectory scratch;
  std::string lines;
  for (int i = 0; i < 20; ++i) {
    lines += fmt::format("{{\"id\": {}, \"label\": {}, \"fold\": {}, \"text\": \"text {}\"}}\n", i,
                         i % 2 == 0 ? 10 : 9, i / 2, i);
  }
  testing::write_bytes(scratch / "reviews.jsonl", lines);
  TextClassTask task({.data = (scratch / "reviews.jsonl").string(), .length = 7});
  task.open();
  EXPECT_EQ(task.examples(Split::kTraining), 14U);
  EXPECT_EQ(task.examples(Split::kValidation), 2U);
  EXPECT_EQ(task.examples(Split::kTest), 4U);
  EXPECT_EQ(task.needs().classes, 2U);
  EXPECT_EQ(task.needs().vocabulary, 256U);
  BatchMemory memory;
  const Batch batch = task.batch(Split::kTest, {.first = 0, .count = 4}, memory);
  EXPECT_EQ(text_of(batch, 0), "text 16");
  EXPECT_EQ(batch.targets[0], 1) << "10 comes behind 9, as a number";
  EXPECT_EQ(batch.targets[1], 0);
}

TEST(TextClass, ReadsColumnsInEitherOrder) {
  const testing::TemporaryDirectory scratch;
  const auto first = [&](const std::string& lines) {
    testing::write_bytes(scratch / "a_train.tsv", lines);
    TextClassTask task({.data = (scratch / "a_train.tsv").string()});
    task.open();
    BatchMemory memory;
    const Batch batch = task.batch(Split::kTraining, {.first = 0, .count = 2}, memory);
    return fmt::format("{} {}", text_of(batch, 0), batch.targets[0]);
  };
  EXPECT_EQ(first("pos\tgood film\nneg\tbad\tfilm\n"), "good film 1");
  EXPECT_EQ(first("label\ttext\npos\tgood film\nneg\tbad film\n"), "good film 1");
  EXPECT_EQ(first("Source\tTarget\ngood film\t1\nbad film\t0\n"), "good film 1");
}

TEST(TextClass, ReadsADirectoryPerClass) {
  const testing::TemporaryDirectory scratch;
  for (const char* split : {"train", "test"}) {
    for (const char* label : {"pos", "neg", "unsup"}) {
      std::filesystem::create_directories(scratch / split / label);
      testing::write_bytes(scratch / split / label / "1.txt", std::string("a ") + label);
    }
  }
  TextClassTask task({.data = scratch.path().string()});
  task.open();
  EXPECT_EQ(task.examples(Split::kTraining), 2U);
  EXPECT_EQ(task.examples(Split::kTest), 2U);
  EXPECT_EQ(task.held_out(), Split::kTest);
  TextClassTask inner({.data = (scratch / "train").string()});
  inner.open();
  EXPECT_EQ(inner.examples(Split::kAll), 2U) << "no splits, and unsup is no class";
}

TEST(TextClass, BadLinesAreRefusedByTheirNumber) {
  const testing::TemporaryDirectory scratch;
  const std::string file = (scratch / "a.jsonl").string();
  const auto why = [&](const std::string& line) {
    testing::write_bytes(file, "{\"text\": \"a\", \"label\": 1}\n" + line + "\n");
    return message_of([&] { TextClassTask({.data = file}).open(); });
  };
  const std::string at = "[text-class] " + file + ":2: ";
  EXPECT_EQ(why("{\"text\": \"a\""), at + "no JSON object; need {\"text\": …, \"label\": …}");
  EXPECT_EQ(why("{\"label\": 1}"), at + "no \"text\"; need one, a string");
  EXPECT_EQ(why(R"({"text": "a", "label": 1.5})"),
            at + "no \"label\"; need one, a whole number or a string");
  EXPECT_EQ(why(R"({"text": "", "label": 1})"), at + "the text is empty");
  EXPECT_EQ(why(R"({"text": "a", "label": 1, "fold": -1})"),
            at + "fold -1; need a whole number from 0 to 999");
  EXPECT_EQ(why(R"({"text": "a", "label": 1, "split": "holdout"})"),
            at + "split 'holdout'; need train, valid or test");
  EXPECT_EQ(why("plain"), at + "neither JSON nor a tab; need a label, a tab and a text");
  EXPECT_EQ(why(R"({"text": "a", "label": 1})"),
            "[text-class] " + file + ": all 2 examples are of class 0; need two classes");
  EXPECT_EQ(why(R"({"text": "a", "label": ""})"), at + "a label of 0 bytes; need 1 to 256");
  std::filesystem::create_directories(scratch / "none" / "a");
  EXPECT_NE(message_of([&] {
              TextClassTask({.data = (scratch / "none").string()}).open();
            }).find("has no texts; need a directory per class"),
            std::string::npos);
  testing::write_bytes(scratch / "none" / "a" / "1.txt", "");
  EXPECT_EQ(
      message_of([&] { TextClassTask({.data = (scratch / "none").string()}).open(); }),
      "[text-class] " + (scratch / "none" / "a" / "1.txt").string() + " is empty; need a text");
}

}  // namespace text_class_test
}  // namespace longspan
