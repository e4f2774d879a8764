#include "longspan/kernels/rows/softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/base/meter.h"
#include "longspan/testing/for_each_target.h"
#include "longspan/testing/guarded_matrix.h"

namespace longspan {
namespace softmax_test {

using testing::for_each_target;
using testing::for_each_thread_count;
using testing::GuardedMatrix;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
// ε = 1.2e-7: half of it each for the shifted argument (|x − max| < 32 there), the exponential, the
// sum and the division.
constexpr double kRelative = 2.4e-6;

std::vector<double> softmax_of(const GuardedMatrix& x, std::size_t row) {
  const auto r = x.view().row(row);
  const double most = *std::ranges::max_element(r);
  std::vector<double> p(r.size());
  for (std::size_t j = 0; j < r.size(); ++j) p[j] = std::exp(r[j] - most);
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& v : p) v /= sum;
  return p;
}

double loss_of(const GuardedMatrix& x, std::size_t row, std::size_t target) {
  const auto r = x.view().row(row);
  const double most = *std::ranges::max_element(r);
  double sum = 0.0;
  for (const float v : r) sum += std::exp(v - most);
  return std::log(sum) + most - r[target];
}

void expect_softmax(const GuardedMatrix& x, const GuardedMatrix& p, double scale = 1.0) {
  EXPECT_TRUE(p.intact());
  for (std::size_t i = 0; i < x.view().rows; ++i) {
    const std::vector<double> want = softmax_of(x, i);
    for (std::size_t j = 0; j < want.size(); ++j) {
      ASSERT_NEAR(p.at(i, j), scale * want[j], kRelative * scale * want[j]) << i << ", " << j;
    }
  }
}

TEST(Softmax, EqualsTheDefinition) {
  for_each_target([] {
    for (const std::size_t cols : {1, 2, 3, 7, 8, 9, 16, 17, 31, 33, 67, 1023, 1024, 1025, 5003}) {
      const auto x = GuardedMatrix::random(5, cols, 7, 16.0F);
      auto p = x;
      softmax_serial(p.view());
      expect_softmax(x, p);
      auto q = x;
      softmax_forward(q.view());
      EXPECT_EQ(p, q);
    }
  });
}

TEST(Softmax, MaskedElementsAreZeroAndMaskedRowsToo) {
  for_each_target([] {
    for (const std::size_t cols : {1, 5, 8, 19}) {
      auto x = GuardedMatrix::random(3, cols, 7, 4.0F);
      for (std::size_t j = 0; j < cols; ++j) x.at(1, j) = kMinusInfinity;
      if (cols > 1) x.at(2, cols - 1) = kMinusInfinity;
      auto p = x;
      softmax_serial(p.view());
      EXPECT_TRUE(p.intact());
      for (std::size_t j = 0; j < cols; ++j) EXPECT_EQ(p.at(1, j), 0.0F);
      if (cols > 1) {
        EXPECT_EQ(p.at(2, cols - 1), 0.0F);
      }
      const auto row = p.view().row(2);
      EXPECT_NEAR(std::accumulate(row.begin(), row.end(), 0.0), 1.0, kRelative);
    }
  });
}

TEST(Softmax, LargeLogitsDoNotOverflow) {
  for_each_target([] {
    GuardedMatrix x(2, 3);
    x.at(0, 0) = 1e30F;
    x.at(0, 1) = -1e30F;
    x.at(1, 0) = 1000.0F;
    x.at(1, 1) = 1000.0F;
    softmax_serial(x.view());
    EXPECT_EQ(x.at(0, 0), 1.0F);
    EXPECT_EQ(x.at(0, 1), 0.0F);
    EXPECT_EQ(x.at(1, 0), 0.5F);
    EXPECT_EQ(x.at(1, 2), 0.0F);
  });
}

TEST(Softmax, NaNIsNotHiddenAndInfinityIsTheLargestLogit) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for_each_target([] {
    for (const std::size_t cols : {1U, 2U, 3U, 8U, 33U, 1025U}) {
      for (const std::size_t at : {std::size_t{0}, cols / 2, cols - 1}) {
        auto x = GuardedMatrix::random(3, cols, 7, 4.0F);
        x.at(0, at) = kNan;
        for (std::size_t j = 0; j < cols; ++j) x.at(1, j) = j == at ? kNan : kMinusInfinity;
        x.at(2, 0) = x.at(2, at) = -kMinusInfinity;
        softmax_serial(x.view());
        EXPECT_TRUE(x.intact());
        EXPECT_TRUE(std::isnan(x.at(0, at)));
        EXPECT_TRUE(std::isnan(x.at(1, at)));
        EXPECT_EQ(x.at(2, at), at == 0 ? 1.0F : 0.5F);
        EXPECT_EQ(x.at(2, cols > 1 && at != 1 ? 1 : 0), cols > 1 && at != 1 ? 0.0F : x.at(2, at));
      }
    }
  });
}

TEST(Softmax, NoRowsOrNoColumns) {
  for_each_target([] {
    GuardedMatrix no_rows(0, 5);
    GuardedMatrix no_cols(5, 0);
    softmax_forward(no_rows.view());
    softmax_forward(no_cols.view());
    EXPECT_TRUE(no_cols.intact());
    EXPECT_EQ(cross_entropy(no_rows.view(), {}).counted, 0U);
  });
}

TEST(Softmax, BackwardIsTheJacobianProduct) {
  for_each_target([] {
    for (const std::size_t cols : {1, 7, 8, 9, 37, 130}) {
      auto p = GuardedMatrix::random(3, cols, 1, 3.0F);
      softmax_serial(p.view());
      const auto dp = GuardedMatrix::random(3, cols, 2);
      auto ds = dp;
      softmax_backward_serial(p.view(), ds.view(), ds.view());
      EXPECT_TRUE(ds.intact());
      for (std::size_t i = 0; i < 3; ++i) {
        double dot = 0.0;
        for (std::size_t j = 0; j < cols; ++j) dot += double{p.at(i, j)} * double{dp.at(i, j)};
        for (std::size_t j = 0; j < cols; ++j) {
          const double want = p.at(i, j) * (dp.at(i, j) - dot);
          EXPECT_NEAR(ds.at(i, j), want, 1e-6 * p.at(i, j));
        }
      }
    }
  });
}

TEST(CrossEntropy, LossCountsAndGradient) {
  for_each_target([] {
    for (const std::size_t cols : {1, 2, 9, 65, 1031}) {
      const auto x = GuardedMatrix::random(6, cols, 3, 5.0F);
      std::vector<std::int32_t> targets(6);
      for (std::size_t i = 0; i < 6; ++i) targets[i] = static_cast<std::int32_t>(i * 7 % cols);
      targets[4] = kIgnoredTarget;
      double want = 0.0;
      std::size_t correct = 0;
      for (std::size_t i = 0; i < 6; ++i) {
        if (i == 4) continue;
        want += loss_of(x, i, static_cast<std::size_t>(targets[i]));
        const auto row = x.view().row(i);
        correct += std::ranges::max_element(row) - row.begin() == targets[i] ? 1 : 0;
      }
      const CrossEntropy got = cross_entropy(x.view(), targets);
      EXPECT_NEAR(got.loss, want, 5 * 2e-7);
      EXPECT_EQ(got.counted, 5U);
      EXPECT_EQ(got.correct, correct);
      EXPECT_EQ(count_targets(targets), 5U);

      auto g = x;
      const CrossEntropy same = cross_entropy_forward(g.view(), targets, 0.25F);
      EXPECT_EQ(same.loss, got.loss);
      EXPECT_EQ(same.correct, got.correct);
      cross_entropy_backward(g.view(), targets, 0.25F);
      EXPECT_TRUE(g.intact());
      for (std::size_t i = 0; i < 6; ++i) {
        const std::vector<double> p = softmax_of(x, i);
        for (std::size_t j = 0; j < cols; ++j) {
          const double hit = targets[i] == static_cast<std::int32_t>(j) ? 1.0 : 0.0;
          EXPECT_NEAR(g.at(i, j), i == 4 ? 0.0 : 0.25 * (p[j] - hit), 3e-7);
        }
      }
    }
  });
}

TEST(CrossEntropy, TiesGoToTheLowestIndex) {
  for_each_target([] {
    GuardedMatrix x(3, 20);
    x.at(0, 3) = x.at(0, 17) = x.at(1, 3) = x.at(1, 17) = x.at(2, 5) = 2.0F;
    EXPECT_EQ(cross_entropy(x.view(), std::vector<std::int32_t>{3, 17, 5}).correct, 2U);
  });
}

TEST(CrossEntropy, ALongRowKeepsItsDigits) {
  for_each_target([] {
    const std::size_t cols = 50257;
    const auto x = GuardedMatrix::random(1, cols, 9, 3.0F);
    EXPECT_NEAR(cross_entropy(x.view(), std::vector<std::int32_t>{11}).loss, loss_of(x, 0, 11),
                1e-6);
  });
}

TEST(CrossEntropy, BitsDoNotDependOnThreads) {
  const auto x = GuardedMatrix::random(1003, 257, 5, 6.0F);
  std::vector<std::int32_t> targets(1003);
  for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = static_cast<std::int32_t>(i % 257);
  std::optional<double> loss;
  std::optional<GuardedMatrix> p;
  for_each_thread_count([&] {
    auto y = x;
    const double now = cross_entropy_forward(y.view(), targets, 0.1F).loss;
    if (!loss) loss = now;
    if (!p) p = y;
    EXPECT_EQ(now, *loss);
    EXPECT_EQ(y, *p);
  });
}

TEST(Softmax, MetersWhatTheHeaderSays) {
  Meter meter;
  const Meter::Use use(meter);
  auto x = GuardedMatrix::random(4, 9, 1);
  const std::vector<std::int32_t> targets = {1, kIgnoredTarget, 3, 8};
  const auto spent = [&](auto&& call) {
    meter.clear();
    call();
    return meter.total(Phase::kForward);
  };
  const auto softmax = [&] { softmax_forward(x.view()); };
  EXPECT_EQ(spent(softmax)[Kind::kSoftmax], 5U * 36);
  EXPECT_EQ(spent(softmax).total_bytes(), 8U * 36);
  EXPECT_EQ(spent([&] { cross_entropy(x.view(), targets); }).flops(), 5U * 36);
  EXPECT_EQ(spent([&] { cross_entropy_forward(x.view(), targets, 1.0F); }).flops(), 5U * 36);
  EXPECT_EQ(spent([&] { cross_entropy_backward(x.view(), targets, 1.0F); }).flops(), 3U);
  EXPECT_EQ(spent([&] { softmax_serial(x.view()); }), Work{});
  EXPECT_EQ(spent([&] { softmax_backward_serial(x.view(), x.view(), x.view()); }), Work{});
}

TEST(CrossEntropy, SaysHowManyTargetsAreNeeded) {
  GuardedMatrix x(2, 3);
  EXPECT_THROW(cross_entropy(x.view(), std::vector<std::int32_t>{1}), Error);
}

}  // namespace softmax_test
}  // namespace longspan
