#include "longspan/tasks/classes/bucketed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace longspan {
namespace bucketed_test {

std::size_t length(std::size_t i) { return 1 + random_below(7, i, 1000); }

TEST(Bucketed, APassTakesEveryExampleOnce) {
  Bucketed bucketed;
  std::set<std::uint32_t> seen;
  for (std::uint64_t step = 0; step < 125; ++step) {
    for (const std::uint32_t i : bucketed.batch(1, step, 8, 1000, &length)) seen.insert(i);
  }
  EXPECT_EQ(seen.size(), 1000U);
  EXPECT_EQ(*seen.rbegin(), 999U);
}

// Padding to the longest of a batch: little where they are sorted, a good deal where not.
TEST(Bucketed, LittleIsPadding) {
  Bucketed bucketed;
  double real = 0.0;
  double padded = 0.0;
  for (std::uint64_t step = 0; step < 600; ++step) {
    const auto batch = bucketed.batch(1, step, 16, 9600, &length);
    std::size_t longest = 0;
    for (const std::uint32_t i : batch) {
      longest = std::max(longest, length(i));
      real += static_cast<double>(length(i));
    }
    padded += static_cast<double>(16 * longest);
  }
  EXPECT_LT(padded / real, 1.03);
}

TEST(Bucketed, LengthsComeInNoOrder) {
  Bucketed bucketed;
  std::size_t rises = 0;
  std::size_t before = 0;
  for (std::uint64_t step = 0; step < 600; ++step) {
    const std::size_t now = length(bucketed.batch(1, step, 16, 9600, &length)[0]);
    rises += now > before ? 1 : 0;
    before = now;
  }
  EXPECT_GT(rises, 250U);
  EXPECT_LT(rises, 350U);
}

TEST(Bucketed, ABatchIsAFunctionOfKeyAndStep) {
  Bucketed one;
  Bucketed other;
  const auto copy = [](std::span<const std::uint32_t> batch) {
    return std::vector<std::uint32_t>(batch.begin(), batch.end());
  };
  const auto of = [&](Bucketed& from, RandomKey key, std::uint64_t step, std::size_t rows) {
    return copy(from.batch(key, step, rows, 100, &length));
  };
  const auto first = of(one, 1, 40, 8);  // of the fourth pass
  of(other, 1, 3, 8);
  of(other, 1, 40, 16);
  EXPECT_EQ(of(other, 1, 40, 8), first);
  EXPECT_NE(of(other, 2, 40, 8), first);
  EXPECT_NE(of(other, 1, 40 + 12, 8), first) << "another pass has another order";
}

TEST(Bucketed, FewExamplesComeSeveralTimes) {
  Bucketed bucketed;
  const auto batch = bucketed.batch(1, 5, 8, 3, &length);
  EXPECT_EQ(batch.size(), 8U);
  EXPECT_EQ(std::set<std::uint32_t>(batch.begin(), batch.end()).size(), 3U);
}

}  // namespace bucketed_test
}  // namespace longspan
