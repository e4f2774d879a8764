#include "longspan/report/lines.h"

#include <gtest/gtest.h>

namespace longspan {
namespace lines_test {

TEST(Lines, AreBrokenBetweenWords) {
  EXPECT_EQ(wrapped("", 10), "\n");
  EXPECT_EQ(wrapped("one", 10), "one\n");
  EXPECT_EQ(wrapped("one two three", 7), "one two\nthree\n");
  EXPECT_EQ(wrapped("one two three", 13), "one two three\n");
  EXPECT_EQ(wrapped("unbreakable it", 4), "unbreakable\nit\n");
  EXPECT_EQ(wrapped("  here:  a CPU", 10), "  here:  a\n  CPU\n");
  EXPECT_EQ(wrapped("≈≈≈ ≈≈≈", 7), "≈≈≈ ≈≈≈\n");
  EXPECT_EQ(wrapped("a b", 0), "a\nb\n");
}

TEST(Lines, AreCutBetweenCharacters) {
  EXPECT_EQ(clipped("performer", 9), "performer");
  EXPECT_EQ(clipped("performer", 5), "perf…");
  EXPECT_EQ(clipped("≈≈≈≈", 3), "≈≈…");
  EXPECT_EQ(text_columns("n ≈ 3"), 5U);
}

}  // namespace lines_test
}  // namespace longspan
