#include "longspan/tasks/classes/split_files.h"

#include <gtest/gtest.h>

#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace split_files_test {

// "train.tsv dev.tsv -": the names of what was found.
std::string found(const std::filesystem::path& data) {
  const SplitFiles files = split_files("who", data);
  if (files.one) return "all of " + files.training.filename().string();
  const auto name = [](const std::optional<std::filesystem::path>& path) {
    return path ? path->filename().string() : std::string("-");
  };
  return name(files.training) + " " + name(files.validation) + " " + name(files.test);
}

class SplitFilesTest : public ::testing::Test {
 protected:
  std::filesystem::path with(std::initializer_list<const char*> names) const {
    for (const char* name : names) testing::write_bytes(scratch / name, "a");
    return scratch.path();
  }
  testing::TemporaryDirectory scratch;
};

TEST_F(SplitFilesTest, AreKnownByTheirWords) {
  const auto folder = with({"my_train.tsv", "my_dev.tsv", "my_test.tsv"});
  EXPECT_EQ(found(folder), "my_train.tsv my_dev.tsv my_test.tsv");
  EXPECT_EQ(found(folder / "my_train.tsv"), "my_train.tsv my_dev.tsv my_test.tsv");
  EXPECT_EQ(found(folder / "my_test.tsv"), "all of my_test.tsv");
}

TEST_F(SplitFilesTest, WordsMayBeInEitherCaseAndBesideDigits) {
  EXPECT_EQ(found(with({"Train2.tsv", "VALID2.tsv", "Test2.tsv"}) / "Train2.tsv"),
            "Train2.tsv VALID2.tsv Test2.tsv");
}

TEST_F(SplitFilesTest, DataSayTheirSplitsByTheSameWords) {
  EXPECT_EQ(split_of("train"), Split::kTraining);
  EXPECT_EQ(split_of("Validation_matched"), Split::kValidation);
  EXPECT_EQ(split_of("eval"), Split::kValidation);
  EXPECT_EQ(split_of("test2"), Split::kTest);
  EXPECT_EQ(split_of("holdout"), std::nullopt);
  EXPECT_EQ(split_of("latest"), std::nullopt);
}

TEST_F(SplitFilesTest, APartOfAWordIsNone) {
  const auto folder = with({"constraints.tsv", "interval.tsv", "latest.tsv"});
  EXPECT_EQ(found(folder / "constraints.tsv"), "all of constraints.tsv");
  EXPECT_EQ(testing::message_of([&] { found(folder); }),
            "[who] " + folder.string() +
                " has no file with the word 'train' in its name; need one, or a file");
  with({"train.tsv"});
  EXPECT_EQ(found(folder), "train.tsv - -");
}

TEST_F(SplitFilesTest, FilesBesideOneDifferInTheWordAlone) {
  const auto folder = with({"a_train.tsv", "a_test.tsv", "b_test.tsv", "a_val.csv"});
  EXPECT_EQ(found(folder / "a_train.tsv"), "a_train.tsv - a_test.tsv");
  EXPECT_EQ(testing::message_of([&] { found(folder); }),
            "[who] " + folder.string() +
                " has both a_test.tsv and b_test.tsv; need one of them in --data");
}

}  // namespace split_files_test
}  // namespace longspan
