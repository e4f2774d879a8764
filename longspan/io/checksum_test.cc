#include "longspan/io/checksum.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace longspan {
namespace checksum_test {

std::string sum(std::string_view text, std::size_t piece) {
  Checksum checksum;
  for (std::size_t i = 0; i < text.size(); i += piece) {
    checksum.add(std::as_bytes(std::span(text.substr(i, piece))));
  }
  return checksum.hex();
}

// The published values of XXH64 with seed 0.
TEST(Checksum, KnownValues) {
  EXPECT_EQ(sum("", 1), "ef46db3751d8e999");
  EXPECT_EQ(sum("a", 1), "d24ec4f1a98c6e5b");
  EXPECT_EQ(sum("abc", 3), "44bc2cf5ad770999");
  EXPECT_EQ(sum("Nobody inspects the spammish repetition", 64), "fbcea83c8a378bf1");
}

TEST(Checksum, PiecesDoNotMatter) {
  std::string text;
  for (int i = 0; i < 1009; ++i) text += static_cast<char>(i * 7);
  for (std::size_t length : {1UL, 31UL, 32UL, 33UL, 64UL, 1009UL}) {
    const std::string_view part = std::string_view(text).substr(0, length);
    for (std::size_t piece : {1UL, 3UL, 31UL, 32UL, 33UL, 100UL}) {
      EXPECT_EQ(sum(part, piece), sum(part, length)) << length << " in pieces of " << piece;
    }
  }
}

}  // namespace checksum_test
}  // namespace longspan
