#include "longspan/io/text_lines.h"

#include <gtest/gtest.h>

#include <vector>

#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace text_lines_test {

using testing::message_of;

std::vector<std::pair<std::size_t, std::string>> lines_of(const std::filesystem::path& path) {
  std::vector<std::pair<std::size_t, std::string>> all;
  read_lines("who", path,
             [&](const TextLine& line) { all.emplace_back(line.number, std::string(line.text)); });
  return all;
}

TEST(TextLines, AreNumberedAndEmptyOnesLeftOut) {
  const testing::TemporaryDirectory scratch;
  testing::write_bytes(scratch / "a", "one\r\n\ntwo\nthree");
  using Lines = std::vector<std::pair<std::size_t, std::string>>;
  EXPECT_EQ(lines_of(scratch / "a"), (Lines{{1, "one"}, {3, "two"}, {4, "three"}}));
}

TEST(TextLines, SayWhereTheyBegin) {
  const testing::TemporaryDirectory scratch;
  std::string text = "one\r\n\n";
  for (const std::size_t size : {1048570U, 3U, 2000000U, 5U}) text += std::string(size, 'x') + "\n";
  text += "last";
  testing::write_bytes(scratch / "a", text);
  std::size_t lines = 0;
  read_lines("who", scratch / "a", [&](const TextLine& line) {
    EXPECT_EQ(text.substr(line.offset, line.text.size()), line.text);
    const std::string before = line.offset == 0 ? "\n" : text.substr(line.offset - 1, 1);
    EXPECT_EQ(before, "\n");
    ++lines;
  });
  EXPECT_EQ(lines, 6U);
}

TEST(TextLines, AByteOrderMarkIsNoneOfTheFirst) {
  const testing::TemporaryDirectory scratch;
  testing::write_bytes(scratch / "a", "\xEF\xBB\xBFone\n\xEF\xBB\xBFtwo\n");
  std::vector<std::pair<std::string, std::uint64_t>> lines;
  read_lines("who", scratch / "a",
             [&](const TextLine& line) { lines.emplace_back(line.text, line.offset); });
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].first, "one");
  EXPECT_EQ(lines[0].second, 3U);
  EXPECT_EQ(lines[1].first, "\xEF\xBB\xBFtwo") << "it is one at the beginning alone";
}

// Of lines across the ends of what is read at a time.
TEST(TextLines, AreWholeWhateverTheirLength) {
  const testing::TemporaryDirectory scratch;
  std::string text;
  std::vector<std::size_t> sizes;
  for (const std::size_t size : {1048575U, 1U, 1048576U, 3000000U, 7U}) {
    text += std::string(size, 'x') + "\n";
    sizes.push_back(size);
  }
  testing::write_bytes(scratch / "a", text);
  std::vector<std::size_t> read;
  for (const auto& [number, line] : lines_of(scratch / "a")) read.push_back(line.size());
  EXPECT_EQ(read, sizes);
}

TEST(TextLines, SayWhereSomethingIsWrong) {
  const testing::TemporaryDirectory scratch;
  testing::write_bytes(scratch / "a", "one\n\ntwo\n");
  const std::filesystem::path path = scratch / "a";
  EXPECT_EQ(message_of([&] {
              read_lines("who", path, [](const TextLine& line) {
                line.require(line.text != "two", "'{}'; need one", line.text);
              });
            }),
            "[who] " + path.string() + ":3: 'two'; need one");
  testing::write_bytes(scratch / "a", "\n\n");
  EXPECT_EQ(message_of([&] { lines_of(path); }),
            "[who] " + path.string() + " is empty; need at least one line");
}

}  // namespace text_lines_test
}  // namespace longspan
