#include "longspan/tasks/token_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "longspan/base/random.h"
#include "longspan/tasks/utf8.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace token_file_test {

using testing::message_of;
using testing::TemporaryDirectory;
using testing::write_bytes;

std::vector<std::int32_t> tokens_of(const TokenFile& file, std::size_t first, std::size_t count) {
  std::vector<std::int32_t> tokens(count, -1);
  file.copy(first, tokens);
  return tokens;
}

// Characters of one to four bytes in no order, so that they lie across every border of a piece.
std::string mixed_text(std::size_t characters) {
  std::string text;
  for (std::size_t i = 0; i < characters; ++i) {
    append_utf8(std::array{0x61U, 0xE9U, 0x20ACU, 0x1F600U}[random_below(3, i, 4)] +
                    static_cast<std::uint32_t>(random_below(4, i, 20)),
                text);
  }
  return text;
}

TEST(TokenFile, IsWhatTheWholeTextIs) {
  const TemporaryDirectory scratch;
  const auto path = scratch / "text";
  const std::string mixed = mixed_text(600'000);  // more than a piece of a mebibyte
  for (const std::string& text : {mixed, std::string(5000, 'a') + "b", std::string("é")}) {
    write_bytes(path, text);
    const Vocabulary whole = Vocabulary::characters_of("text", text);
    const std::vector<std::int32_t> all = whole.encode("text", text);
    const TokenFile file(path, "characters");
    EXPECT_EQ(file.vocabulary(), whole);
    ASSERT_EQ(file.size(), all.size());
    EXPECT_EQ(tokens_of(file, 0, all.size()), all);
    const TokenFile again(path, whole);
    ASSERT_EQ(again.size(), all.size());
    for (std::uint64_t i = 0; i < 300; ++i) {
      const auto first = static_cast<std::size_t>(random_below(5, i, all.size()));
      const auto count = static_cast<std::size_t>(
          random_below(6, i, std::min<std::size_t>(all.size() - first, 3000) + 1));
      const auto at = all.begin() + static_cast<std::ptrdiff_t>(first);
      ASSERT_EQ(tokens_of(again, first, count),
                std::vector<std::int32_t>(at, at + static_cast<std::ptrdiff_t>(count)));
    }
    const TokenFile bytes(path, "bytes");
    ASSERT_EQ(bytes.size(), text.size());
    EXPECT_EQ(tokens_of(bytes, 0, text.size()), Vocabulary::bytes().encode("text", text));
  }
}

TEST(TokenFile, TargetsAreTheTokensAfter) {
  const TemporaryDirectory scratch;
  write_bytes(scratch / "text", mixed_text(20'000));
  for (const char* kind : {"bytes", "characters"}) {
    const TokenFile file(scratch / "text", kind);
    for (const std::size_t length : {1U, 1000U, 5000U}) {
      std::vector<std::int32_t> into(length);
      std::vector<std::int32_t> next(length);
      file.copy_with_next(1023, into, next);
      EXPECT_EQ(into, tokens_of(file, 1023, length));
      EXPECT_EQ(next, tokens_of(file, 1024, length));
    }
    std::vector<std::int32_t> last(1);
    file.copy_with_next(file.size() - 2, last, last);
    EXPECT_EQ(last, tokens_of(file, file.size() - 1, 1));
    EXPECT_NE(message_of([&] { file.copy_with_next(file.size() - 1, last, last); }), "");
  }
}

TEST(TokenFile, WideVocabularies) {
  const TemporaryDirectory scratch;
  for (const std::uint32_t size : {256U, 257U, 65536U, 65537U}) {
    std::vector<std::uint32_t> code_points;
    for (std::uint32_t c = 0; code_points.size() < size; ++c) {
      if (!is_surrogate(c)) code_points.push_back(c);
    }
    const Vocabulary vocabulary = Vocabulary::characters(code_points);
    const std::vector<std::int32_t> tokens{0, static_cast<std::int32_t>(size) - 1, 1};
    write_bytes(scratch / "text", vocabulary.decode(tokens));
    EXPECT_EQ(tokens_of(TokenFile(scratch / "text", vocabulary), 0, 3), tokens);
  }
}

// What is no longer there is said; nothing ends.
TEST(TokenFile, MayChangeWhileItIsRead) {
  const TemporaryDirectory scratch;
  const auto path = scratch / "text";
  write_bytes(path, mixed_text(100'000));
  const TokenFile characters(path, "characters");
  const TokenFile bytes(path, "bytes");
  std::filesystem::resize_file(path, 1000);
  for (const TokenFile* file : {&characters, &bytes}) {
    EXPECT_NE(message_of([&] { tokens_of(*file, 50'000, 10); }).find("the file is truncated"),
              std::string::npos);
  }
  EXPECT_EQ(tokens_of(bytes, 0, 10).size(), 10U);
  std::filesystem::resize_file(path, bytes.size());  // with zeros, which it did not have
  EXPECT_NE(message_of([&] {
              tokens_of(characters, 50'000, 10);
            }).find("has the character U+0000 at byte"),
            std::string::npos);
}

TEST(TokenFile, Messages) {
  const TemporaryDirectory scratch;
  const std::string path = (scratch / "text").string();
  write_bytes(path, std::string(2 << 20U, 'a') + "\xE2\x82");
  EXPECT_EQ(message_of([&] { TokenFile(path, "characters"); }),
            "[vocabulary] " + path +
                " is not UTF-8 at byte 2097152; need UTF-8 text, or the vocabulary bytes");
  EXPECT_EQ(message_of([&] { TokenFile(path, Vocabulary::characters({'b'})); }),
            "[vocabulary] " + path +
                " has the character U+0061 at byte 0; the 1 known do not include it");
  EXPECT_NE(message_of([&] { TokenFile(path, "words"); }).find("unknown vocabulary 'words'"),
            std::string::npos);
  const TokenFile bytes(path, "bytes");
  EXPECT_EQ(message_of([&] { tokens_of(bytes, 2097150, 5); }),
            "[text] got tokens 2097150 to 2097155; need them below 2097154");
}

}  // namespace token_file_test
}  // namespace longspan
