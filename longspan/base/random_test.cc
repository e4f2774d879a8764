#include "longspan/base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace longspan {
namespace random_test {

constexpr RandomKey key_of(std::uint32_t k0, std::uint32_t k1) {
  return (std::uint64_t{k1} << 32U) | k0;
}

// Known answers of the publication's reference implementation (Random123, philox4x32, 10 rounds).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (RandomBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox(key_of(kOnes, kOnes), {kOnes, kOnes, kOnes, kOnes}),
            (RandomBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox(key_of(0xa4093822, 0x299f31d0), {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
      (RandomBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, UniformHasItsMoments) {
  constexpr std::size_t kCount = 200000;
  double sum = 0.0;
  double square = 0.0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double u = random_uniform(17, i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    square += u * u;
  }
  // Five standard errors: √(1/12/n) and √(4/45/n).
  EXPECT_NEAR(sum / kCount, 0.5, 5 * std::sqrt(1.0 / 12 / kCount));
  EXPECT_NEAR(square / kCount, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / kCount));
  EXPECT_LT(to_uniform(0xffffffff), 1.0F);
  EXPECT_EQ(to_uniform(0), 0.0F);
}

TEST(Random, NormalHasItsMoments) {
  constexpr std::size_t kCount = 200000;
  double m1 = 0.0;
  double m2 = 0.0;
  double m3 = 0.0;
  double m4 = 0.0;
  double neighbours = 0.0;
  double previous = 0.0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double z = random_normal(23, i);
    ASSERT_TRUE(std::isfinite(z));
    m1 += z;
    m2 += z * z;
    m3 += z * z * z;
    m4 += z * z * z * z;
    neighbours += z * previous;
    previous = z;
  }
  // Variances of z, z², z³, z⁴ and z·z' are 1, 2, 15, 96 and 1.
  EXPECT_NEAR(m1 / kCount, 0.0, 5 * std::sqrt(1.0 / kCount));
  EXPECT_NEAR(m2 / kCount, 1.0, 5 * std::sqrt(2.0 / kCount));
  EXPECT_NEAR(m3 / kCount, 0.0, 5 * std::sqrt(15.0 / kCount));
  EXPECT_NEAR(m4 / kCount, 3.0, 5 * std::sqrt(96.0 / kCount));
  EXPECT_NEAR(neighbours / kCount, 0.0, 5 * std::sqrt(1.0 / kCount));
}

TEST(Random, BelowCoversItsRangeEvenly) {
  constexpr std::size_t kBound = 7;
  constexpr std::size_t kCount = 70000;
  std::vector<std::size_t> seen(kBound);
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::uint64_t value = random_below(3, i, kBound);
    ASSERT_LT(value, kBound);
    ++seen[value];
  }
  for (const std::size_t n : seen) {
    EXPECT_NEAR(static_cast<double>(n), 10000.0, 5 * std::sqrt(10000.0));
  }
  EXPECT_EQ(random_below(3, 0, 1), 0U);
}

TEST(Random, DerivedKeysDiffer) {
  std::set<RandomKey> keys;
  for (std::uint64_t word = 0; word < 1000; ++word) keys.insert(derive(1, word));
  for (const char* name : {"encoder", "decoder", "embedding", "residual", "attention", ""}) {
    keys.insert(derive(1, name));
  }
  keys.insert(derive(2, std::uint64_t{0}));
  EXPECT_EQ(keys.size(), 1007U);
  EXPECT_EQ(derive(5, "encoder"), derive(5, "encoder"));
}

TEST(Dropout, DropsAtItsRateAndKeepsTheMean) {
  for (const float rate : {0.1F, 0.5F, 0.9F}) {
    const Dropout drop{rate, 99};
    std::size_t dropped = 0;
    constexpr std::uint32_t kRows = 200;
    constexpr std::uint32_t kCols = 301;
    for (std::uint32_t plane = 0; plane < 2; ++plane) {
      for (std::uint32_t i = 0; i < kRows; ++i) {
        for (std::uint32_t j = 0; j < kCols; ++j) {
          const float f = drop.factor(plane, i, j);
          if (f == 0.0F) {
            ++dropped;
          } else {
            ASSERT_EQ(f, 1.0F / (1.0F - rate));
          }
        }
      }
    }
    const double count = 2.0 * kRows * kCols;
    const double p = rate;
    EXPECT_NEAR(static_cast<double>(dropped), p * count, 5 * std::sqrt(p * (1 - p) * count));
  }
}

TEST(Dropout, WordsOfABlockArePlanesRowsAndColumns) {
  const Dropout drop{0.5F, 1234};
  for (std::uint32_t j = 0; j < 9; ++j) {
    const RandomBlock block = philox(1234, {5, j / 4, 3, 0});
    EXPECT_EQ(drop.factor(3, 5, j), block[j % 4] < 0x80000000U ? 0.0F : 2.0F) << j;
  }
}

TEST(Dropout, RateZeroIsOff) {
  const Dropout drop{0.0F, 1};
  EXPECT_FALSE(drop.active());
  EXPECT_EQ(drop.factor(0, 0, 0), 1.0F);
}

}  // namespace random_test
}  // namespace longspan
