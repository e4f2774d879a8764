#include "longspan/kernels/rows/squared_error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "longspan/base/meter.h"
#include "longspan/base/parallel.h"
#include "longspan/base/random.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace squared_error_test {

constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

struct Problem {
  Problem(std::size_t rows_, std::size_t cols_) : rows(rows_), cols(cols_) {
    for (std::size_t i = 0; i < rows * cols; ++i) {
      x.push_back(random_normal(1, i));
      values.push_back(i % 5 == 3 ? kMissing : random_normal(2, i));
    }
  }
  Matrix matrix() { return {x.data(), rows, cols}; }
  ConstMatrix goal() const { return {values.data(), rows, cols}; }
  double loss() const {
    double sum = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!std::isnan(values[i])) sum += std::pow(double{x[i]} - double{values[i]}, 2);
    }
    return sum;
  }

  std::size_t rows;
  std::size_t cols;
  std::vector<float> x;
  std::vector<float> values;
};

TEST(SquaredError, SumsWhatIsThere) {
  for (const std::size_t rows : {1UL, 7UL, 131UL, 9001UL}) {
    for (const std::size_t cols : {1UL, 3UL, 17UL}) {
      Problem p(rows, cols);
      const double expected = p.loss();
      const std::vector<float> before = p.x;
      const SquaredErrorSum sum = squared_error(p.matrix(), p.goal());
      EXPECT_NEAR(sum.loss, expected, 1e-9 * expected + 1e-12);
      EXPECT_EQ(sum.counted, count_values(p.values));
      EXPECT_EQ(p.x, before);
      EXPECT_EQ(squared_error_forward(p.matrix(), p.goal(), 0.5F).loss, sum.loss);
      for (std::size_t i = 0; i < p.x.size(); ++i) {
        EXPECT_EQ(p.x[i], std::isnan(p.values[i]) ? 0.0F : 0.5F * before[i]);
      }
    }
  }
}

// The gradient of scale·Σ (x − value)², by differences that are exact for a parabola.
TEST(SquaredError, BackwardIsTheGradient) {
  Problem p(5, 3);
  std::vector<double> expected;
  for (float& x : p.x) {
    const float at = x;
    x = at + 0.25F;
    const double above = p.loss();
    x = at - 0.25F;
    expected.push_back(0.7 * (above - p.loss()) / 0.5);
    x = at;
  }
  squared_error_forward(p.matrix(), p.goal(), 0.7F);
  squared_error_backward(p.matrix(), p.goal(), 0.7F);
  for (std::size_t i = 0; i < p.x.size(); ++i) EXPECT_NEAR(p.x[i], expected[i], 1e-5);
}

TEST(SquaredError, ThreadsDoNotChangeTheSum) {
  Problem p(20011, 5);
  const int usual = thread_count();
  set_thread_count(1);
  const double one = squared_error(p.matrix(), p.goal()).loss;
  set_thread_count(2);
  EXPECT_EQ(squared_error(p.matrix(), p.goal()).loss, one);
  set_thread_count(usual);
}

TEST(SquaredError, SaysWhatItDoes) {
  Problem p(7, 3);
  Meter meter;
  {
    const Meter::Use use(meter);
    squared_error(p.matrix(), p.goal());
    squared_error_forward(p.matrix(), p.goal(), 1.0F);
    squared_error_backward(p.matrix(), p.goal(), 1.0F);
  }
  Work work;
  for (const auto& [place, done] : meter.entries()) work += done;
  EXPECT_EQ(work.maccs, 0U);
  EXPECT_EQ(work.flops(), (3U + 4U + 3U) * 7U * 3U);
  EXPECT_EQ(testing::message_of([&] {
              squared_error(p.matrix(), {p.values.data(), 3, 7});
            }),
            "[squared error] 7x3 outputs and 3x7 values; need equal shapes");
}

}  // namespace squared_error_test
}  // namespace longspan
