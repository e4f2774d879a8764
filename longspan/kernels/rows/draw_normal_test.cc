#include "longspan/kernels/rows/draw_normal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "longspan/kernels/rows/box_muller-inl.h"
#include "longspan/testing/for_each_target.h"
#include "longspan/testing/guarded_matrix.h"

namespace longspan {
namespace draw_normal_test {

using testing::for_each_target;
using testing::for_each_thread_count;
using testing::GuardedMatrix;

constexpr double kTolerance = 7 * 0x1p-24;  // of the number

double radius(std::uint32_t r) { return std::sqrt(-2.0 * std::log((r + 0.5) * 0x1p-32)); }
double angle(std::uint32_t r) { return 2.0 * std::numbers::pi * r * 0x1p-32; }

// The definition, in double.
double number(RandomKey key, std::uint64_t i) {
  const std::uint64_t b = i / 4;
  const RandomBlock r =
      philox(key, {static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32U), 3, 0});
  const std::size_t pair = i % 4 / 2 * 2;
  const double tau = angle(r[pair + 1]);
  return radius(r[pair]) * (i % 2 == 0 ? std::cos(tau) : std::sin(tau));
}

std::vector<float> drawn(RandomKey key, std::size_t count) {
  std::vector<float> z(count);
  draw_normal(key, 1.0F, z);
  return z;
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& z) {
  std::vector<std::uint32_t> bits;
  for (const float x : z) bits.push_back(std::bit_cast<std::uint32_t>(x));
  return bits;
}

// Σ a_i·b_i/n, of samples of equal size.
double mean_product(std::span<const float> a, std::span<const float> b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum / static_cast<double>(a.size());
}

// Words where something changes: ends, quarters and halves of them, powers of two, their
// neighbours; and all over.
std::vector<std::uint32_t> words() {
  std::vector<std::uint32_t> all;
  for (std::uint32_t around = 0; around < 16; ++around) {
    for (std::uint32_t off = 0; off < 300; ++off) {
      all.push_back((around << 28U) + off);
      all.push_back((around << 28U) - off);
    }
  }
  for (std::uint32_t bit = 0; bit < 28; ++bit) {
    for (const std::uint32_t power : {1U << bit, 0U - (1U << bit), 0x55555555U, 0xAAAAAAAAU}) {
      for (const std::uint32_t off : {0U, 1U, 2U}) {
        all.push_back(power + off);
        all.push_back(power - off);
      }
    }
  }
  for (std::uint64_t r = 0; r < std::uint64_t{1} << 32U; r += 9973) {
    all.push_back(static_cast<std::uint32_t>(r));
  }
  return all;
}

// Of values that are zero or above 1e-9; in double, the cosine of a quarter turn is 6e-17.
double relative_error(double value, double wanted) {
  return std::max(0.0, std::abs(value - wanted) - 1e-15) / std::abs(wanted);
}

// Of the instruction set that the test is compiled for: of the others, the numbers are tested.
TEST(BoxMuller, FunctionsAreThoseInDouble) {
  namespace target = HWY_NAMESPACE;
  const target::WordTag tag;
  double radii = 0.0;
  double cosines = 0.0;
  double sines = 0.0;
  for (const std::uint32_t r : words()) {
    const double rho = target::hn::GetLane(target::radius_of(target::hn::Set(tag, r)));
    const target::Circle at = target::circle_of(target::hn::Set(tag, r));
    const double x = target::hn::GetLane(at.cosine);
    const double y = target::hn::GetLane(at.sine);
    const double turn = angle(r);
    ASSERT_TRUE(rho > 0.0 && rho < 6.77) << rho << " of " << r;
    radii = std::max(radii, relative_error(rho, radius(r)));
    cosines = std::max(cosines, relative_error(x, std::cos(turn)));
    sines = std::max(sines, relative_error(y, std::sin(turn)));
  }
  EXPECT_LT(radii, 3 * 0x1p-24);
  EXPECT_LT(cosines, 3 * 0x1p-24);
  EXPECT_LT(sines, 3 * 0x1p-24);
}

TEST(DrawNormal, IsItsDefinition) {
  for_each_target([] {
    const std::vector<float> z = drawn(5, 100003);
    for (std::size_t i = 0; i < z.size(); ++i) {
      const double wanted = number(5, i);
      ASSERT_NEAR(z[i], wanted, kTolerance * std::abs(wanted)) << i;
    }
  });
}

// Whatever is drawn is the beginning of the same stream.
TEST(DrawNormal, EveryLengthIsABeginning) {
  const std::vector<float> all = drawn(6, 70000);
  for_each_target([&] {
    for (const std::size_t n :
         {0,  1,  2,  3,  4,  5,   7,   8,   9,     15,    16,    17,    31,    32,   33,
          63, 64, 65, 66, 67, 127, 128, 129, 16383, 16384, 16385, 16387, 49153, 65537}) {
      GuardedMatrix to(1, n);
      draw_normal(6, 1.0F, to.view().row(0));
      EXPECT_TRUE(to.intact()) << n;
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(to.at(0, i), all[i]) << i << " of " << n;
    }
  });
}

TEST(DrawNormal, BitsAreThoseOfEveryInstructionSetAndAnyNumberOfThreads) {
  const std::vector<std::uint32_t> bits = bits_of(drawn(7, 300001));
  for_each_target([&] { EXPECT_TRUE(bits == bits_of(drawn(7, 300001))); });
  for_each_thread_count([&] { EXPECT_TRUE(bits == bits_of(drawn(7, 300001))); });
}

TEST(DrawNormal, ScalesByTheDeviation) {
  for_each_target([] {
    const std::vector<float> one = drawn(8, 1001);
    std::vector<float> scaled(one.size());
    draw_normal(8, 0.25F, scaled);
    for (std::size_t i = 0; i < one.size(); ++i) ASSERT_EQ(scaled[i], 0.25F * one[i]);
    draw_normal(8, 0.0F, scaled);
    for (const float x : scaled) ASSERT_EQ(x, 0.0F);
  });
}

TEST(DrawNormal, HasTheMomentsOfTheNormalDistribution) {
  const std::vector<float> z = drawn(9, 1000000);
  const auto n = static_cast<double>(z.size());
  double m1 = 0.0;
  double m2 = 0.0;
  double m3 = 0.0;
  double m4 = 0.0;
  for (const double x : z) {
    ASSERT_TRUE(std::isfinite(x));
    m1 += x;
    m2 += x * x;
    m3 += x * x * x;
    m4 += x * x * x * x;
  }
  // Variances of z, z², z³ and z⁴ are 1, 2, 15 and 96.
  EXPECT_NEAR(m1 / n, 0.0, 5 * std::sqrt(1.0 / n));
  EXPECT_NEAR(m2 / n, 1.0, 5 * std::sqrt(2.0 / n));
  EXPECT_NEAR(m3 / n, 0.0, 5 * std::sqrt(15.0 / n));
  EXPECT_NEAR(m4 / n, 3.0, 5 * std::sqrt(96.0 / n));
}

double distribution(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

// Kolmogorov and Smirnov: √n·sup|F − Φ| exceeds 1.95 once in a thousand samples.
TEST(DrawNormal, HasTheNormalDistribution) {
  std::vector<float> z = drawn(10, 1000000);
  std::ranges::sort(z);
  const auto n = static_cast<double>(z.size());
  double most = 0.0;
  for (std::size_t i = 0; i < z.size(); ++i) {
    const double wanted = distribution(z[i]);
    const auto below = static_cast<double>(i);
    most = std::max({most, wanted - below / n, (below + 1.0) / n - wanted});
  }
  EXPECT_LT(std::sqrt(n) * most, 1.95);
}

TEST(DrawNormal, HasTheTailsOfTheNormalDistribution) {
  const std::vector<float> z = drawn(11, 4000000);
  for (const float edge : {3.0F, 3.5F, 4.0F, 4.5F}) {
    const double wanted = distribution(-edge) * static_cast<double>(z.size());
    const auto low = std::ranges::count_if(z, [&](float x) { return x < -edge; });
    const auto high = std::ranges::count_if(z, [&](float x) { return x > edge; });
    EXPECT_NEAR(static_cast<double>(low), wanted, 5 * std::sqrt(wanted)) << edge;
    EXPECT_NEAR(static_cast<double>(high), wanted, 5 * std::sqrt(wanted)) << edge;
  }
}

// Neighbours share a counter, pairs a radius; then counters, streams and their squares.
TEST(DrawNormal, NumbersAndStreamsAreIndependent) {
  constexpr std::size_t kCount = 1000000;
  const double tolerance = 5 * std::sqrt(1.0 / kCount);
  const auto squares = [](std::vector<float> z) {
    for (float& x : z) x = (x * x - 1.0F) / std::numbers::sqrt2_v<float>;  // variance 1
    return z;
  };
  const std::vector<float> z = drawn(derive(1, "a"), kCount + 8);
  const std::vector<float> zz = squares(z);
  const auto from = [](const std::vector<float>& all, std::size_t first) {
    return std::span(all).subspan(first, kCount);
  };
  for (const std::size_t apart : {1, 2, 3, 4, 5, 8}) {
    EXPECT_NEAR(mean_product(from(z, 0), from(z, apart)), 0.0, tolerance) << apart;
    EXPECT_NEAR(mean_product(from(zz, 0), from(zz, apart)), 0.0, tolerance) << apart;
  }
  for (const RandomKey other : {derive(1, "b"), derive(2, "a"), derive(1, "a") + 1}) {
    const std::vector<float> w = drawn(other, kCount);
    EXPECT_NEAR(mean_product(from(z, 0), w), 0.0, tolerance);
    EXPECT_NEAR(mean_product(from(zz, 0), squares(w)), 0.0, tolerance);
  }
}

}  // namespace draw_normal_test
}  // namespace longspan
