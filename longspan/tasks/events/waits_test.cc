#include "longspan/tasks/events/waits.h"

#include <gtest/gtest.h>

#include "longspan/base/random.h"

namespace longspan {
namespace waits_test {

// ∫ e^(−Λ) with Λ in closed form, by thin slices.
template <class Compensator>
double survival(const Compensator& passed, double horizon) {
  constexpr std::size_t kSlices = 200000;
  const double width = horizon / static_cast<double>(kSlices);
  double sum = 0.0;
  for (std::size_t i = 0; i < kSlices; ++i) {
    sum += width * std::exp(-passed((static_cast<double>(i) + 0.5) * width));
  }
  return sum;
}

TEST(Waits, ConstantRatesWaitTheirInverse) {
  for (const double rate : {1e-3, 0.5, 1.0, 30.0, 1e5}) {
    const auto constant = [&](double /*s*/) { return rate; };
    const double horizon = 50.0;
    EXPECT_NEAR(expected_wait(constant, horizon), -std::expm1(-rate * horizon) / rate,
                1e-6 * std::min(1.0 / rate, horizon))
        << rate;
  }
}

// Rates that rise and that fall, quickly and slowly, and one that dies away.
TEST(Waits, FollowTheRate) {
  for (const double rate : {0.05, 3.0}) {
    for (const double level : {0.0, 0.3, 10.0}) {
      for (const double decay : {0.1, 2.0, 20.0}) {
        const auto course = [&](double s) { return level + (rate - level) * std::exp(-decay * s); };
        const auto passed = [&](double s) {
          return level * s - (rate - level) * std::expm1(-decay * s) / decay;
        };
        const double want = survival(passed, 40.0);
        EXPECT_NEAR(expected_wait(course, 40.0), want, 3e-3 * want)
            << rate << " " << level << " " << decay;
      }
    }
  }
}

// 1 − e^(−x) of a sample is uniform: distances and probabilities known of uniform ones.
TEST(Waits, KolmogorovAndSmirnovAreRight) {
  EXPECT_EQ(exponential_fit({}).p, 1.0);
  const double half = std::log(2.0);
  EXPECT_NEAR(exponential_fit({half}).distance, 0.5, 1e-12);
  EXPECT_NEAR(exponential_fit({half, half}).distance, 0.5, 1e-12);
  // The limit: P(√n·D > 1.358) = 5 %, > 1.628 = 1 %. Quantiles moved by D are as far as D.
  constexpr std::size_t kCount = 100000;
  for (const auto& [x, p] : {std::pair{1.358, 0.05}, {1.628, 0.01}, {0.828, 0.5}}) {
    const double moved = x / std::sqrt(static_cast<double>(kCount));
    std::vector<double> sample;
    for (std::size_t i = 0; i < kCount; ++i) {
      const double share = (static_cast<double>(i) + 0.5) / static_cast<double>(kCount);
      sample.push_back(-std::log1p(-std::min(share * (1.0 + moved), 1.0 - 1e-12)));
    }
    const KolmogorovSmirnov fit = exponential_fit(sample);
    EXPECT_NEAR(fit.distance, moved, 0.02 * moved);
    EXPECT_NEAR(fit.p, p, 0.1 * p) << x;
  }
}

TEST(Waits, ExponentialSamplesFit) {
  std::size_t rare = 0;
  for (RandomKey key = 1; key <= 200; ++key) {
    std::vector<double> sample;
    for (std::size_t i = 0; i < 300; ++i) {
      sample.push_back(-std::log1p(-static_cast<double>(random_uniform(derive(4, key), i))));
    }
    rare += exponential_fit(sample).p < 0.1 ? 1 : 0;
  }
  EXPECT_GT(rare, 8U);  // 20 of 200, with a deviation of 4.2
  EXPECT_LT(rare, 32U);
}

}  // namespace waits_test
}  // namespace longspan
