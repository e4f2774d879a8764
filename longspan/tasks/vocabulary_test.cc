#include "longspan/tasks/vocabulary.h"

#include <gtest/gtest.h>

#include <numeric>

#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace vocabulary_test {

using testing::message_of;

TEST(Vocabulary, Bytes) {
  const Vocabulary vocabulary = Vocabulary::make("bytes", "a.txt", "");
  EXPECT_EQ(vocabulary.kind(), "bytes");
  EXPECT_EQ(vocabulary.size(), 256U);
  std::string all(256, '\0');
  std::iota(all.begin(), all.end(), '\0');
  const auto tokens = vocabulary.encode("all", all);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(tokens[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(vocabulary.decode(tokens), all);
  EXPECT_EQ(vocabulary.count_bytes(tokens), 256U);
}

TEST(Vocabulary, Characters) {
  const std::string text = "zaé€a😀\n\u007F\u0080\u07FF\u0800\uFFFF\U00010000\U0010FFFF";
  const Vocabulary vocabulary = Vocabulary::make("characters", "a.txt", text);
  EXPECT_EQ(vocabulary.kind(), "characters");
  EXPECT_EQ(vocabulary.code_points(),
            (std::vector<std::uint32_t>{'\n', 'a', 'z', 0x7F, 0x80, 0xE9, 0x7FF, 0x800, 0x20AC,
                                        0xFFFF, 0x10000, 0x1F600, 0x10FFFF}));
  const auto tokens = vocabulary.encode("a.txt", text);
  EXPECT_EQ(tokens.size(), 14U);
  EXPECT_EQ(vocabulary.decode(tokens), text);
  EXPECT_EQ(vocabulary.count_bytes(tokens), text.size());
  EXPECT_EQ(Vocabulary::characters(vocabulary.code_points()), vocabulary);
  EXPECT_EQ(Vocabulary::characters(vocabulary.code_points()).encode("x", text), tokens);
}

TEST(Vocabulary, EveryCodePointSurvives) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c < 0xD800 || c > 0xDFFF) all.push_back(c);
  }
  const Vocabulary vocabulary = Vocabulary::characters(all);
  std::vector<std::int32_t> tokens(all.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const std::string text = vocabulary.decode(tokens);
  EXPECT_EQ(text.size(), vocabulary.count_bytes(tokens));
  EXPECT_EQ(vocabulary.encode("all", text), tokens);
}

TEST(Vocabulary, RefusesWhatIsNotUtf8) {
  for (const std::string bad :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC3", "\xC3(", "\xE2\x82", "\xE0\x9F\xBF",
        "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_EQ(
        message_of([&] { Vocabulary::characters_of("a.txt", "ab" + bad); }),
        "[vocabulary] a.txt is not UTF-8 at byte 2; need UTF-8 text, or the vocabulary bytes");
  }
}

TEST(Vocabulary, Messages) {
  const Vocabulary vocabulary = Vocabulary::characters({'a', 'b'});
  EXPECT_EQ(message_of([&] { vocabulary.encode("the prompt", "ab\u00E9"); }),
            "[vocabulary] the prompt has the character U+00E9 at byte 2; the 2 known do not "
            "include it");
  EXPECT_EQ(message_of([&] { vocabulary.decode(std::vector<std::int32_t>{2}); }),
            "[vocabulary] got the token 2; need 0 to 1");
  EXPECT_EQ(message_of([&] { vocabulary.decode(std::vector<std::int32_t>{-1}); }),
            "[vocabulary] got the token -1; need 0 to 1");
  EXPECT_EQ(
      message_of([] { Vocabulary::make("byte", "a", "a"); }),
      "[vocabulary] unknown vocabulary 'byte'; did you mean 'bytes'? Known: bytes, characters");
  EXPECT_EQ(message_of([] { Vocabulary::make("characters", "a.txt", ""); }),
            "[vocabulary] a.txt is empty; need at least one character");
  EXPECT_EQ(message_of([] { Vocabulary::characters({}); }),
            "[vocabulary] got no characters; need at least one");
  EXPECT_EQ(message_of([] {
              Vocabulary::characters({5, 5});
            }),
            "[vocabulary] code point 5 follows 5; need them in ascending order");
  EXPECT_EQ(message_of([] { Vocabulary::characters({0xD800}); }),
            "[vocabulary] 55296 is not a Unicode code point");
}

}  // namespace vocabulary_test
}  // namespace longspan
