#include "longspan/layers/routing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "longspan/base/random.h"

namespace longspan {
namespace routing_test {

TEST(ExpectedRows, IsTheMeanOfRandomChoices) {
  struct Draw {
    std::size_t tokens, experts, top, capacity;
  };
  for (const Draw& c : {Draw{100, 8, 1, 13}, Draw{100, 8, 2, 25}, Draw{37, 5, 2, 9},
                        Draw{50, 4, 3, 40}, Draw{20, 8, 1, 1}, Draw{64, 2, 1, 40}}) {
    constexpr std::size_t kTrials = 4000;
    double sum = 0.0;
    double squares = 0.0;
    std::uint64_t drawn = 0;
    for (std::size_t trial = 0; trial < kTrials; ++trial) {
      std::vector<std::size_t> asked(c.experts, 0);
      for (std::size_t t = 0; t < c.tokens; ++t) {
        std::vector<std::size_t> left(c.experts);
        std::iota(left.begin(), left.end(), std::size_t{0});
        for (std::size_t j = 0; j < c.top; ++j) {
          const std::size_t i = random_below(5, drawn++, left.size());
          ++asked[left[i]];
          left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
        }
      }
      double mean = 0.0;
      for (const std::size_t a : asked) {
        mean += static_cast<double>(std::min(a, c.capacity)) / static_cast<double>(c.experts);
      }
      sum += mean;
      squares += mean * mean;
    }
    const double mean = sum / kTrials;
    const double error = std::sqrt(std::max(0.0, squares / kTrials - mean * mean) / kTrials);
    EXPECT_NEAR(expected_rows(c.tokens, c.experts, c.top, c.capacity), mean, 4.0 * error + 1e-9)
        << c.tokens << ' ' << c.experts << ' ' << c.top << ' ' << c.capacity;
  }
}

TEST(ExpectedRows, IsExactWhereItIsKnown) {
  EXPECT_DOUBLE_EQ(expected_rows(100, 8, 2, 100), 25.0);
  EXPECT_DOUBLE_EQ(expected_rows(100, 4, 4, 60), 60.0);
  EXPECT_DOUBLE_EQ(expected_rows(2, 2, 1, 1), 0.75);                // 1 − P(nobody)
  EXPECT_NEAR(expected_rows(3, 3, 1, 2), 1.0 - 1.0 / 27.0, 1e-14);  // 3 come in one of 27
  EXPECT_NEAR(expected_rows(1000000, 8, 1, 1000000 - 1), 125000.0, 1e-3);
  EXPECT_EQ(expected_rows(0, 8, 1, 0), 0.0);
}

}  // namespace routing_test
}  // namespace longspan
