// Var[q·k] = d_k, Var[q·k/√d_k] = 1, and what that does to a softmax and its derivative.
#include "longspan/cost/scaling.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longspan/base/error.h"

namespace longspan {
namespace scaling_test {

// The variance of q·k/√d_k is 1 and its fourth moment 3 + 6/d_k, so that the mean of n samples
// deviates by 1/√n and their variance by √((2 + 6/d_k)/n). Five deviations are allowed.
TEST(Scaling, VarianceOfAScoreIsItsWidth) {
  for (const std::size_t d_k : {1U, 7U, 64U, 257U}) {
    const ScoreSample sample{.d_k = d_k, .keys = 50, .queries = 40, .scaled = false, .seed = 9};
    const ScoreStatistics plain = sample_scores(sample);
    ScoreSample after = sample;
    after.scaled = true;
    const ScoreStatistics scaled = sample_scores(after);
    const double n = 50.0 * 40.0;
    const auto width = static_cast<double>(d_k);
    const double mean_error = 5.0 / std::sqrt(n);
    const double variance_error = 5.0 * std::sqrt((2.0 + 6.0 / width) / n);
    EXPECT_NEAR(plain.mean, 0.0, mean_error * std::sqrt(width)) << d_k;
    EXPECT_NEAR(plain.variance / width, 1.0, variance_error) << d_k;
    EXPECT_NEAR(scaled.mean, 0.0, mean_error) << d_k;
    EXPECT_NEAR(scaled.variance, 1.0, variance_error) << d_k;
  }
}

TEST(Scaling, KeepsTheSoftmaxAlive) {
  const auto at = [](std::size_t d_k, bool scaled) {
    return sample_scores({.d_k = d_k, .keys = 64, .queries = 32, .scaled = scaled});
  };
  EXPECT_GT(at(256, false).largest_weight, 0.9);
  EXPECT_LT(at(256, false).derivative, 0.2);
  EXPECT_LT(at(256, true).largest_weight, 0.3);
  EXPECT_GT(at(256, true).derivative, 0.8);
  // Without a scale it gets worse with the width; with one it does not.
  EXPECT_GT(at(4, false).derivative, at(64, false).derivative);
  EXPECT_NEAR(at(4, true).derivative, at(256, true).derivative, 0.1);
}

TEST(Scaling, OneKeyHasAllTheWeight) {
  const ScoreStatistics one = sample_scores({.d_k = 3, .keys = 1, .queries = 5});
  EXPECT_DOUBLE_EQ(one.largest_weight, 1.0);
  EXPECT_DOUBLE_EQ(one.derivative, 0.0);
  EXPECT_THROW(sample_scores({.d_k = 0}), Error);
}

}  // namespace scaling_test
}  // namespace longspan
