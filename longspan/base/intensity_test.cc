#include "longspan/base/intensity.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "longspan/base/random.h"

namespace longspan {
namespace intensity_test {

double plain(double x) { return std::log1p(std::exp(x)); }

// Σ f over many thin slices, Simpson's rule.
template <class F>
double integral_of(F f, double from, double to) {
  constexpr std::size_t kSlices = 20000;
  const double h = (to - from) / static_cast<double>(2 * kSlices);
  double sum = f(from) + f(to);
  for (std::size_t i = 1; i < 2 * kSlices; ++i) {
    sum += (i % 2 == 0 ? 2.0 : 4.0) * f(from + static_cast<double>(i) * h);
  }
  return sum * h / 3.0;
}

TEST(Intensity, IntegratesSoftplus) {
  EXPECT_NEAR(integrated_softplus(0.0), std::numbers::pi * std::numbers::pi / 12.0, 1e-15);
  EXPECT_NEAR(integrated_softplus(-60.0), std::exp(-60.0), 1e-40);
  for (const double x : {-30.0, -3.0, -0.5, 0.0, 0.5, 2.0, 10.0, 40.0}) {
    const double want = integral_of(plain, -40.0, x) + std::exp(-40.0);
    EXPECT_NEAR(integrated_softplus(x), want, 1e-9 * (1.0 + std::abs(want))) << x;
  }
}

TEST(Intensity, RunsBetweenEvents) {
  const std::vector<float> line = {0.5F, -1.0F, 0.25F, 2.0F};
  const Intensities affine(Decay::kAffine, line);
  EXPECT_EQ(affine.types(), 2);
  EXPECT_NEAR(affine.rate(1, 1.5), plain(2.0), 1e-12);
  EXPECT_NEAR(affine.total(1.5), plain(0.875) + plain(2.0), 1e-12);
  const double first = integral_of([](double s) { return plain(0.5 + 0.25 * s); }, 0.0, 1.5);
  const double second = integral_of([](double s) { return plain(-1.0 + 2.0 * s); }, 0.0, 1.5);
  EXPECT_NEAR(affine.integral(1.5), first + second, 1e-9);

  const std::vector<float> curve = {1.0F, -2.0F, 0.5F};
  const Intensities exponential(Decay::kExponential, curve);
  const auto rate = [](double s) { return plain(-2.0 + 3.0 * std::exp(-plain(0.5) * s)); };
  EXPECT_NEAR(exponential.rate(0, 0.7), rate(0.7), 1e-12);
  EXPECT_NEAR(exponential.integral(60.0), integral_of(rate, 0.0, 60.0), 1e-9);
}

// Points laid come as near as the definition of a likelihood needs; points drawn are right in the
// mean.
TEST(Intensity, IntegratesInSeveralWays) {
  double off = 0.0;
  double spread = 0.0;
  constexpr std::size_t kDraws = 400;
  for (const Decay decay : {Decay::kAffine, Decay::kExponential}) {
    for (std::uint64_t i = 0; i < kDraws; ++i) {
      std::vector<float> scores(scores_per_type(decay));
      for (std::size_t j = 0; j < scores.size(); ++j) {
        scores[j] = 2.0F * random_normal(derive(7, i), j);
      }
      const Intensities one(decay, scores);
      const double s = 0.01 + 5.0 * random_uniform(8, i);
      const double exact = one.term(0, s).integral;
      EXPECT_NEAR(one.term(0, s, Integration::kQuadrature).integral, exact, 1e-6);
      const double drawn = one.term(0, s, Integration::kMonteCarlo).integral;
      EXPECT_EQ(drawn, one.term(0, s, Integration::kMonteCarlo).integral);
      EXPECT_NE(drawn, exact);
      off += drawn - exact;
      spread += (drawn - exact) * (drawn - exact);
    }
  }
  EXPECT_LT(std::abs(off), 4.0 * std::sqrt(spread));
}

// Nobody waits for what diverged.
TEST(Intensity, ScoresThatAreNotFiniteHaveAnEnd) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float r : {kInfinity, -kInfinity, std::nanf("")}) {
    const std::array<float, 3> scores = {0.5F, -0.25F, r};
    const double integral = Intensities(Decay::kExponential, scores).term(0, 2.0).integral;
    EXPECT_TRUE(std::isnan(integral) || r == -kInfinity) << r << ": " << integral;
  }
}

}  // namespace intensity_test
}  // namespace longspan
