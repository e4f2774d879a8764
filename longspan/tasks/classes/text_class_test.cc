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
  EXPECT_EQ(first("id\tlabel\ttext\n7\tpos\tgood\tfilm\n8\tneg\tbad film\n"), "good\tfilm 1");
  EXPECT_EQ(first("Text\tid\tLabel\ngood film\t7\tpos\nbad film\t8\tneg\n"), "good film 1");
  EXPECT_EQ(message_of([&] { first("id\ttext\tlabel\n1\tgood film\n"); }),
            "[text-class] " + (scratch / "a_train.tsv").string() +
                ":2: 2 columns; need 3, as the titles say");
}

TEST(TextClass, TitlesMayBeInEitherCase) {
  const testing::TemporaryDirectory scratch;
  testing::write_bytes(scratch / "a.tsv", "Text\tLabel\ngood film\tpos\nbad film\tneg\n");
  TextClassTask task({.data = (scratch / "a.tsv").string()});
  task.open();
  EXPECT_EQ(task.class_names(), (std::vector<std::string>{"neg", "pos"}));
}

TEST(TextClass, TextsInThePlaceOfLabelsAreNoticed) {
  const testing::TemporaryDirectory scratch;
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += fmt::format("the film {}\t{}\n", i, i % 2);
  const std::string file = (scratch / "a.tsv").string();
  testing::write_bytes(file, lines);
  EXPECT_EQ(message_of([&] { TextClassTask({.data = file}).open(); }),
            "[text-class] " + file +
                ": 100 labels of 100 texts; need the label first in a line, or a first line "
                "'text<tab>label'");
}

// Of the data that a model was trained on; others may lack some.
TEST(TextClass, ClassesKeepTheirNames) {
  const testing::TemporaryDirectory scratch;
  testing::write_bytes(scratch / "a.tsv", "cat\ta\ndog\tb\nowl\tc\nowl\td\n");
  TextClassTask trained({.data = (scratch / "a.tsv").string()});
  trained.open();
  const std::vector<std::string> names = {"cat", "dog", "owl"};
  EXPECT_EQ(trained.class_names(), names);
  const std::string other = (scratch / "b.tsv").string();
  testing::write_bytes(other, "owl\tc\nowl\td\n");
  TextClassTask task({.data = other});
  task.use_classes(names);
  task.open();
  EXPECT_EQ(task.needs().classes, 3U);
  BatchMemory memory;
  EXPECT_EQ(task.batch(Split::kAll, {.first = 0, .count = 2}, memory).targets[1], 2);
  testing::write_bytes(other, "owl\tc\ncow\td\n");
  TextClassTask unknown({.data = other});
  unknown.use_classes(names);
  EXPECT_EQ(message_of([&] { unknown.open(); }),
            "[text-class] " + other + ":2: label 'cow' is none that is known: cat, dog, owl");
  std::filesystem::create_directories(scratch / "folders" / "cow");
  testing::write_bytes(scratch / "folders" / "cow" / "1.txt", "moo");
  TextClassTask folders({.data = (scratch / "folders").string()});
  folders.use_classes(names);
  EXPECT_EQ(message_of([&] { folders.open(); }),
            "[text-class] " + (scratch / "folders" / "cow").string() +
                ": the class is none that is known: cat, dog, owl");
}

TEST(TextClass, FewFoldsAreDividedToo) {
  const testing::TemporaryDirectory scratch;
  const std::string file = (scratch / "a.jsonl").string();
  const auto sizes = [&](int folds) {
    std::string lines;
    for (int i = 0; i < 60; ++i) {
      lines += fmt::format("{{\"text\": \"a\", \"label\": {}, \"fold\": {}}}\n", i / 30, i % folds);
    }
    testing::write_bytes(file, lines);
    TextClassTask task({.data = file});
    task.open();
    return std::vector<std::size_t>{task.examples(Split::kTraining),
                                    task.examples(Split::kValidation), task.examples(Split::kTest)};
  };
  EXPECT_EQ(sizes(1), (std::vector<std::size_t>{48, 6, 6})) << "one fold says nothing";
  EXPECT_EQ(sizes(2), (std::vector<std::size_t>{30, 0, 30}));
  EXPECT_EQ(sizes(3), (std::vector<std::size_t>{20, 20, 20}));
  EXPECT_EQ(sizes(5), (std::vector<std::size_t>{36, 12, 12}));
  EXPECT_EQ(sizes(20), (std::vector<std::size_t>{42, 6, 12}));
  testing::write_bytes(file, R"({"text": "a", "label": 1, "fold": -1})");
  EXPECT_EQ(message_of([&] { TextClassTask({.data = file}).open(); }),
            "[text-class] " + file + ":1: fold -1; need a whole number from 0 to 999");
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

TEST(TextClass, HiddenFilesAreNoTexts) {
  const testing::TemporaryDirectory scratch;
  for (const char* name : {"a/1", "a/2", "b/1", "b/2", ".git/HEAD", "a/.DS_Store", ".DS_Store"}) {
    std::filesystem::create_directories((scratch / name).parent_path());
    testing::write_bytes(scratch / name, "some text");
  }
  TextClassTask task({.data = scratch.path().string()});
  task.open();
  EXPECT_EQ(task.examples(Split::kAll), 4U);
  EXPECT_EQ(task.class_names(), (std::vector<std::string>{"a", "b"}));
}

// Refused while it is learned what the classes are, and no matter later.
TEST(TextClass, AClassHasAnExample) {
  const testing::TemporaryDirectory scratch;
  for (const char* name : {"train/a/1", "train/a/2", "train/b/1", "test/a/1"}) {
    std::filesystem::create_directories((scratch / name).parent_path());
    testing::write_bytes(scratch / name, "some text");
  }
  std::filesystem::create_directory(scratch / "test" / "b");
  const std::string data = scratch.path().string();
  TextClassTask task({.data = data});
  task.open();
  EXPECT_EQ(task.examples(Split::kTest), 1U) << "b has its examples in another split";
  std::filesystem::create_directory(scratch / "train" / "c");
  EXPECT_EQ(message_of([&] { TextClassTask({.data = data}).open(); }),
            "[text-class] " + (scratch / "train" / "c").string() +
                " has no example; need one, or no such directory");
  TextClassTask judged({.data = data});
  judged.use_classes({"a", "b"});
  judged.open();
  EXPECT_EQ(judged.examples(Split::kAll), 4U);
}

TEST(TextClass, ClassesHaveSeveralTexts) {
  const testing::TemporaryDirectory scratch;
  const std::string file = (scratch / "a.jsonl").string();
  std::string lines;
  for (int i = 0; i < 3; ++i) lines += fmt::format("{{\"text\": \"a\", \"label\": {}}}\n", i);
  testing::write_bytes(file, lines);
  EXPECT_EQ(message_of([&] { TextClassTask({.data = file}).open(); }),
            "[text-class] " + file + ": 3 labels of 3 texts; need several texts of a label");
  const std::string columns = (scratch / "a.tsv").string();
  testing::write_bytes(columns, "some words\t0\nmore words\t1\nothers\t0\n");
  EXPECT_EQ(message_of([&] { TextClassTask({.data = columns}).open(); }),
            "[text-class] " + columns +
                ": 3 labels of 3 texts; need the label first in a line, or a first line "
                "'text<tab>label'");
}

TEST(TextClass, LinksThatLeadNowhereHaveASentence) {
  const testing::TemporaryDirectory scratch;
  std::filesystem::create_directory(scratch / "a");
  testing::write_bytes(scratch / "a" / "1", "text");
  std::filesystem::create_symlink("loop", scratch / "loop");
  EXPECT_EQ(message_of([&] { TextClassTask({.data = scratch.path().string()}).open(); }),
            "[text-class] " + (scratch / "loop").string() +
                " could not be read: Too many levels of symbolic links");
}

TEST(TextClass, BadLinesAreRefusedByTheirNumber) {
  const testing::TemporaryDirectory scratch;
  const std::string file = (scratch / "a.jsonl").string();
  const auto why = [&](const std::string& line) {
    testing::write_bytes(file, "{\"text\": \"a\", \"label\": 1}\n" + line + "\n");
    return message_of([&] { TextClassTask({.data = file}).open(); });
  };
  const std::string at = "[text-class] " + file + ":2: ";
  EXPECT_EQ(why("{\"text\": \"a\""), at + "not a JSON object; need {\"text\": …, \"label\": …}");
  EXPECT_EQ(why("{\"label\": 1}"), at + "no \"text\"; need one, a string");
  EXPECT_EQ(why(R"({"text": "a", "label": 1.5})"),
            at + "\"label\" is 1.5; need a whole number or a string");
  EXPECT_EQ(why(R"({"text": "a"})"), at + "no \"label\"; need one, a whole number or a string");
  EXPECT_EQ(why(R"({"text": 5, "label": 1})"), at + "\"text\" is 5; need a string");
  EXPECT_EQ(why(R"({"text": "", "label": 1})"), at + "the text is empty");
  EXPECT_EQ(why(R"({"text": "a", "label": 1, "fold": 1})"),
            at + "a \"fold\", which lines before have not; need it in all lines or in none");
  EXPECT_EQ(why(R"({"text": "a", "label": 1, "split": "holdout"})"),
            at + "split 'holdout'; need train, valid or test");
  EXPECT_EQ(why(R"({"text": "a", "label": 1, "label": 2})"), at + "the key 'label' appears twice");
  EXPECT_EQ(why("plain"), at + "neither JSON nor a tab; need a label, a tab and a text");
  EXPECT_EQ(why(R"({"text": "a", "label": 1})"),
            "[text-class] " + file + ": all 2 examples are of class '1'; need two classes");
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
