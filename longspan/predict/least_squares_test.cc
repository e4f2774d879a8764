#include "longspan/predict/least_squares.h"

#include <gtest/gtest.h>

#include <cmath>

namespace longspan {
namespace least_squares_test {

TEST(FitSeconds, FindsWhatMadeThePoints) {
  const std::vector<double> truth = {2e-11, 0.0, 3e-9, 5e-6};
  std::vector<TimedPoint> points;
  for (int i = 1; i <= 12; ++i) {
    const std::vector<double> x = {1e6 * i * i, 1e3 * std::sqrt(i), 100.0 * i * (i % 3 + 1), 1.0};
    points.push_back({x, dot(x, truth)});
  }
  const Fit fit = fit_seconds(points);
  EXPECT_LT(fit.error, 1e-4);
  for (const TimedPoint& p : points) {
    EXPECT_NEAR(dot(p.x, fit.coefficients) / p.seconds, 1.0, 1e-3);
  }
}

TEST(FitSeconds, NothingIsNegative) {
  // The second quantity would want a negative coefficient.
  const std::vector<TimedPoint> points = {{{1.0, 0.0}, 2.0}, {{1.0, 1.0}, 1.0}, {{2.0, 0.0}, 4.0}};
  const Fit fit = fit_seconds(points);
  EXPECT_EQ(fit.coefficients[1], 0.0);
  // Least squares of c/2 − 1, c − 1 and c/2 − 1.
  EXPECT_NEAR(fit.coefficients[0], 4.0 / 3.0, 1e-9);
}

TEST(FitSeconds, PartsOfALongWholeCountLittle) {
  // Alone, 3 and 1 would meet near 1.2; as a hundredth of its whole, the first says next to
  // nothing.
  const std::vector<TimedPoint> points = {{{1.0}, 3.0, 300.0}, {{1.0}, 1.0}};
  EXPECT_NEAR(fit_seconds(points).coefficients[0], 1.0, 1e-4);
}

TEST(FitSeconds, AQuantityThatNeverOccursCostsNothing) {
  const std::vector<TimedPoint> points = {{{1.0, 0.0}, 2.0}, {{3.0, 0.0}, 6.0}};
  const Fit fit = fit_seconds(points);
  EXPECT_NEAR(fit.coefficients[0], 2.0, 1e-9);
  EXPECT_EQ(fit.coefficients[1], 0.0);
}

}  // namespace least_squares_test
}  // namespace longspan
