#include "longspan/tasks/classes/example_files.h"

#include <gtest/gtest.h>

#include "longspan/base/error.h"
#include "longspan/tasks/classes/labelled.h"
#include "longspan/tasks/classes/listops.h"
#include "longspan/tasks/classes/text_class.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace example_files_test {

using testing::message_of;
using testing::TemporaryDirectory;
using testing::write_bytes;

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};  // NOLINT
}

// What stays in files is what would be in memory, down to its checksum.
TEST(ExampleFiles, AreTheSameAsInMemory) {
  const TemporaryDirectory scratch;
  const std::vector<std::string> texts = {"one", "", "three", std::string(5000, 'x')};
  const auto files = std::make_shared<ExampleFiles>("who");
  Labelled held;
  Labelled left(files);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto path = scratch / std::to_string(i);
    write_bytes(path, "before" + texts[i] + "behind");
    held.add(bytes_of(texts[i]), static_cast<std::int32_t>(i));
    const std::uint32_t number = files->add(path, &parse_bytes_as_tokens);
    left.add({6, static_cast<std::uint32_t>(texts[i].size()), number}, texts[i].size(),
             static_cast<std::int32_t>(i));
  }
  EXPECT_EQ(left.longest(), held.longest());
  std::vector<std::uint8_t> a;
  std::vector<std::uint8_t> b;
  for (const std::size_t i : {3U, 0U, 1U, 2U, 0U}) {
    held.read(i, 0, a);
    left.read(i, 0, b);
    EXPECT_EQ(std::string(a.begin(), a.end()), texts[i]);
    EXPECT_EQ(a, b);
    EXPECT_EQ(left.label(i), held.label(i));
  }
  Checksum of_held;
  Checksum of_left;
  held.add_to(of_held);
  left.add_to(of_left);
  EXPECT_EQ(of_left.hex(), of_held.hex());
}

std::string listops_lines() {
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    lines += fmt::format("{}\t( [MAX {} {} ] )\n", (i % 5) + 1, i % 5, (i % 5) + 1);
  }
  return lines;
}

TEST(ExampleFiles, ThatChangeAreSentences) {
  const TemporaryDirectory scratch;
  const auto lists = scratch / "lists.tsv";
  const auto texts = scratch / "texts.jsonl";
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    lines += fmt::format("{{\"label\": {}, \"text\": \"text {:02}\"}}\n", i % 2, i);
  }
  write_bytes(lists, listops_lines());
  write_bytes(texts, lines);
  ListOpsTask listops({.source = {.data = lists.string()}, .length = 8});
  TextClassTask text_class({.data = texts.string()});
  for (ClassTask* task : std::initializer_list<ClassTask*>{&listops, &text_class}) {
    task->open();
    BatchMemory memory;
    task->training_batch(1, 2, 8, memory);
    const auto& path = task == &listops ? lists : texts;
    const std::uintmax_t size = std::filesystem::file_size(path);
    std::filesystem::resize_file(path, 5);
    EXPECT_NE(
        message_of([&] { task->training_batch(1, 3, 8, memory); }).find("the file is truncated"),
        std::string::npos);
    EXPECT_NE(message_of([&] { task->checksum(); }), "");
    std::filesystem::resize_file(path, size);  // zeros
    EXPECT_NE(message_of([&] {
                task->training_batch(1, 3, 8, memory);
              }).find("no longer what it was; need data that stay as they are"),
              std::string::npos);
  }
}

}  // namespace example_files_test
}  // namespace longspan
