#include "longspan/kernels/rows/point_process.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/base/random.h"
#include "longspan/testing/for_each_target.h"

namespace longspan {
namespace point_process_test {

double plain_softplus(double x) { return std::log1p(std::exp(x)); }

// Σ f over many thin slices, Simpson's rule.
template <class F>
double simpson(F f, double from, double to, std::size_t slices = 20000) {
  const double h = (to - from) / static_cast<double>(2 * slices);
  double sum = f(from) + f(to);
  for (std::size_t i = 1; i < 2 * slices; ++i) {
    sum += (i % 2 == 0 ? 2.0 : 4.0) * f(from + static_cast<double>(i) * h);
  }
  return sum * h / 3.0;
}

struct Row {
  std::vector<float> scores;
  std::int32_t type;
  float gap;
};

std::vector<Row> rows(Decay decay) {
  std::vector<Row> all;
  constexpr std::size_t kTypes = 3;
  const std::size_t width = scores_per_type(decay) * kTypes;
  for (std::uint64_t i = 0; i < 40; ++i) {
    Row row;
    for (std::size_t j = 0; j < width; ++j) {
      row.scores.push_back(2.0F * random_normal(derive(3, i), j));
    }
    if (i % 5 == 0) row.scores[kTypes + 1] = 0.0F;  // no slope
    if (i % 7 == 0) row.scores[kTypes] = 1e-3F;
    row.type = static_cast<std::int32_t>(i % 5) - 2;  // −2 … 2
    row.gap = static_cast<float>(i % 4) * 0.7F + (i % 3 == 0 ? 0.0F : 0.01F);
    all.push_back(row);
  }
  return all;
}

double argument(Decay decay, const std::vector<float>& scores, std::size_t k, double s) {
  const std::size_t types = scores.size() / scores_per_type(decay);
  const double a = scores[k];
  const double b = scores[types + k];
  if (decay == Decay::kAffine) return a + b * s;
  return b + (a - b) * std::exp(-plain_softplus(scores[2 * types + k]) * s);
}

double loss_of(Decay decay, const Row& row) {
  if (row.type == kIgnoredRow) return 0.0;
  const std::size_t types = row.scores.size() / scores_per_type(decay);
  double loss = 0.0;
  for (std::size_t k = 0; k < types; ++k) {
    const auto rate = [&](double s) { return plain_softplus(argument(decay, row.scores, k, s)); };
    loss += simpson(rate, 0.0, row.gap, 200);
    if (row.type == static_cast<std::int32_t>(k)) loss -= std::log(rate(row.gap));
  }
  return loss;
}

TEST(PointProcess, IsItsDefinition) {
  for (const Decay decay : {Decay::kAffine, Decay::kExponential}) {
    double want = 0.0;
    std::vector<float> scores;
    std::vector<std::int32_t> types;
    std::vector<float> gaps;
    std::size_t events = 0;
    for (const Row& row : rows(decay)) {
      want += loss_of(decay, row);
      scores.insert(scores.end(), row.scores.begin(), row.scores.end());
      types.push_back(row.type);
      gaps.push_back(row.gap);
      events += row.type >= 0 ? 1 : 0;
      const EventRows one{{&row.type, 1}, {&row.gap, 1}};
      const PointProcessSum sum =
          point_process({decay}, ConstMatrix(row.scores.data(), 1, row.scores.size()), one);
      EXPECT_NEAR(sum.loss, loss_of(decay, row), 1e-8) << types.size();
    }
    const Matrix matrix(scores.data(), types.size(), scores.size() / types.size());
    const PointProcessSum all = point_process({decay}, matrix, {types, gaps});
    EXPECT_NEAR(all.loss, want, 1e-6);
    EXPECT_EQ(all.events, events);
    EXPECT_EQ(point_process_gradient({decay}, matrix, {types, gaps}, 1.0F).loss, all.loss);
  }
}

// Central differences of the sum, which is smooth.
TEST(PointProcess, GradientIsThatOfTheSum) {
  for (const Decay decay : {Decay::kAffine, Decay::kExponential}) {
    for (const Row& row : rows(decay)) {
      std::vector<float> gradient = row.scores;
      const EventRows one{{&row.type, 1}, {&row.gap, 1}};
      point_process_gradient({decay}, Matrix(gradient.data(), 1, gradient.size()), one, 0.5F);
      for (std::size_t j = 0; j < gradient.size(); ++j) {
        const auto at = [&](float by) {
          std::vector<float> moved = row.scores;
          moved[j] += by;
          return point_process({decay}, ConstMatrix(moved.data(), 1, moved.size()), one).loss;
        };
        constexpr float kStep = 1.0F / 512.0F;
        const double moved = (static_cast<double>(row.scores[j] + kStep) -
                              static_cast<double>(row.scores[j] - kStep));
        const double want = 0.5 * (at(kStep) - at(-kStep)) / moved;
        EXPECT_NEAR(gradient[j], want, 2e-4 * (1.0 + std::abs(want))) << j;
      }
    }
  }
}

// However it is integrated, the sum is nearly the same one and the gradient its own.
TEST(PointProcess, IntegratesInSeveralWays) {
  for (const Decay decay : {Decay::kAffine, Decay::kExponential}) {
    for (const Row& row : rows(decay)) {
      const ConstMatrix scores(row.scores.data(), 1, row.scores.size());
      const EventRows one{{&row.type, 1}, {&row.gap, 1}};
      const double exact = point_process({decay}, scores, one).loss;
      EXPECT_NEAR(point_process({decay, Integration::kQuadrature}, scores, one).loss, exact, 1e-6);
      EXPECT_NEAR(point_process({decay, Integration::kMonteCarlo}, scores, one).loss, exact, 0.02);
      for (const Integration how : {Integration::kQuadrature, Integration::kMonteCarlo}) {
        std::vector<float> gradient = row.scores;
        const auto sum = point_process_gradient(
            {decay, how}, Matrix(gradient.data(), 1, gradient.size()), one, 1.0F);
        EXPECT_EQ(sum.loss, point_process({decay, how}, scores, one).loss);
        std::vector<float> want = row.scores;
        point_process_gradient({decay}, Matrix(want.data(), 1, want.size()), one, 1.0F);
        for (std::size_t j = 0; j < want.size(); ++j) {
          EXPECT_NEAR(gradient[j], want[j], how == Integration::kQuadrature ? 1e-5 : 0.02) << j;
        }
      }
    }
  }
}

// Far values neither overflow nor vanish.
TEST(PointProcess, ExtremesStayFinite) {
  for (const float level : {-1e4F, -50.0F, 50.0F, 1e4F}) {
    for (const float slope : {-1e3F, -1e-8F, 0.0F, 1e3F}) {
      std::vector<float> scores = {level, slope, 3.0F};
      const std::int32_t type = 0;
      const float gap = 10.0F;
      const EventRows one{{&type, 1}, {&gap, 1}};
      for (const Decay decay : {Decay::kAffine, Decay::kExponential}) {
        std::vector<float> g(scores.begin(), scores.begin() + scores_per_type(decay));
        const PointProcessSum sum =
            point_process_gradient({decay}, Matrix(g.data(), 1, g.size()), one, 1.0F);
        EXPECT_TRUE(std::isfinite(sum.loss)) << level << " " << slope;
        for (const float x : g) EXPECT_TRUE(std::isfinite(x)) << level << " " << slope;
      }
    }
  }
}

TEST(PointProcess, RefusesShapesThatDoNotFit) {
  std::vector<float> scores(6);
  const std::int32_t type = 0;
  const float gap = 1.0F;
  EXPECT_THROW(
      point_process({Decay::kAffine}, Matrix(scores.data(), 1, 3), {{&type, 1}, {&gap, 1}}), Error);
  EXPECT_THROW(
      point_process({Decay::kAffine}, Matrix(scores.data(), 2, 2), {{&type, 1}, {&gap, 1}}), Error);
}

}  // namespace point_process_test
}  // namespace longspan
