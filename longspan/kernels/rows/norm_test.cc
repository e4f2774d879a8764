#include "longspan/kernels/rows/norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/base/meter.h"
#include "longspan/testing/for_each_target.h"
#include "longspan/testing/guarded_matrix.h"

namespace longspan {
namespace norm_test {

using testing::for_each_target;
using testing::for_each_thread_count;
using testing::GuardedMatrix;

constexpr float kEpsilon = 1e-5F;
const std::vector<std::size_t> kWidths = {1, 2, 7, 8, 9, 17, 33, 67, 513};

struct Reference {
  std::vector<double> x_hat;
  double r = 0.0;
};

Reference reference(NormKind kind, const GuardedMatrix& x, std::size_t row) {
  const auto v = x.view().row(row);
  const auto d = static_cast<double>(v.size());
  double mean = 0.0;
  if (kind == NormKind::kLayer) {
    for (const float f : v) mean += f / d;
  }
  double variance = 0.0;
  for (const float f : v) variance += (f - mean) * (f - mean) / d;
  Reference ref;
  ref.r = 1.0 / std::sqrt(variance + double{kEpsilon});
  for (const float f : v) ref.x_hat.push_back((f - mean) * ref.r);
  return ref;
}

struct Case {
  NormKind kind;
  std::size_t rows;
  std::size_t d;
  GuardedMatrix x = GuardedMatrix::random(rows, d, 1, 2.0F);
  GuardedMatrix gamma = GuardedMatrix::random(1, d, 2);
  GuardedMatrix beta = GuardedMatrix::random(1, d, 3);
  GuardedMatrix y{rows, d};
  GuardedMatrix x_hat{rows, d};
  std::vector<float> inverse = std::vector<float>(rows);

  const float* beta_data() const { return kind == NormKind::kLayer ? beta.view().data : nullptr; }
  void forward() {
    norm_forward(kind, kEpsilon, x.view(), gamma.view().data, beta_data(), y.view(), x_hat.view(),
                 inverse);
  }
};

template <class Check>
void for_each_case(Check check) {
  for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
    for (const std::size_t d : kWidths) {
      SCOPED_TRACE(::testing::Message() << (kind == NormKind::kLayer ? "layer " : "rms ") << d);
      check(Case{kind, 5, d});
    }
    check(Case{kind, 301, 130});  // several pieces
  }
}

TEST(Norm, ForwardIsTheDefinition) {
  for_each_target([] {
    for_each_case([](Case c) {
      c.forward();
      EXPECT_TRUE(c.y.intact());
      EXPECT_TRUE(c.x_hat.intact());
      for (std::size_t i = 0; i < c.rows; ++i) {
        const Reference want = reference(c.kind, c.x, i);
        EXPECT_NEAR(c.inverse[i], want.r, 1e-6 * want.r);
        for (std::size_t j = 0; j < c.d; ++j) {
          // x − mean keeps an error of ε·|mean|, which r scales.
          const double tolerance = 2.4e-7 * (2.0 * want.r + 4.0 * std::fabs(want.x_hat[j]));
          ASSERT_NEAR(c.x_hat.at(i, j), want.x_hat[j], tolerance) << i << ", " << j;
          const double offset = c.kind == NormKind::kLayer ? c.beta.at(0, j) : 0.0;
          ASSERT_NEAR(c.y.at(i, j), c.gamma.at(0, j) * want.x_hat[j] + offset, tolerance + 2.4e-7);
        }
      }
    });
  });
}

TEST(Norm, InferenceKeepsNothingAndMayWorkInPlace) {
  for_each_target([] {
    for_each_case([](Case c) {
      c.forward();
      auto y = c.x;
      norm_forward(c.kind, kEpsilon, y.view(), c.gamma.view().data, c.beta_data(), y.view(), {},
                   {});
      EXPECT_EQ(y, c.y);
    });
  });
}

TEST(Norm, AConstantOffsetDoesNotSpoilTheVariance) {
  for_each_target([] {
    Case c{NormKind::kLayer, 1, 64};
    for (std::size_t j = 0; j < 64; ++j) c.x.at(0, j) = 1000.0F + (j % 2 == 0 ? 0.5F : -0.5F);
    c.forward();
    EXPECT_NEAR(c.inverse[0], 1.0 / std::sqrt(0.25 + 1e-5), 1e-6);
  });
}

TEST(Norm, BackwardIsTheJacobianProduct) {
  for_each_target([] {
    for_each_case([](Case c) {
      c.forward();
      const auto dy = GuardedMatrix::random(c.rows, c.d, 4);
      const auto before = GuardedMatrix::random(c.rows, c.d, 5);
      auto dx = dy;  // in place
      norm_backward(c.kind, c.x_hat.view(), c.inverse, c.gamma.view().data, dx.view(), dx.view(),
                    false);
      auto sum = before;
      norm_backward(c.kind, c.x_hat.view(), c.inverse, c.gamma.view().data, dy.view(), sum.view(),
                    true);
      EXPECT_TRUE(dx.intact());
      EXPECT_TRUE(sum.intact());
      for (std::size_t i = 0; i < c.rows; ++i) {
        double mean_g = 0.0;
        double mean_gx = 0.0;
        for (std::size_t j = 0; j < c.d; ++j) {
          const double g = double{c.gamma.at(0, j)} * dy.at(i, j) / static_cast<double>(c.d);
          mean_g += c.kind == NormKind::kLayer ? g : 0.0;
          mean_gx += g * c.x_hat.at(i, j);
        }
        for (std::size_t j = 0; j < c.d; ++j) {
          const double g = double{c.gamma.at(0, j)} * dy.at(i, j);
          const double want = c.inverse[i] * (g - mean_g - c.x_hat.at(i, j) * mean_gx);
          const double tolerance = 1e-6 * c.inverse[i] * (1.0 + std::fabs(c.x_hat.at(i, j)));
          ASSERT_NEAR(dx.at(i, j), want, tolerance) << i << ", " << j;
          ASSERT_NEAR(sum.at(i, j), before.at(i, j) + want, tolerance + 2.4e-7);
        }
      }
    });
  });
}

TEST(Norm, GradientOfAnyLossAgreesWithDifferences) {
  Case c{NormKind::kLayer, 1, 9};
  c.forward();
  const auto dy = GuardedMatrix::random(1, 9, 4);
  GuardedMatrix dx(1, 9);
  norm_backward(c.kind, c.x_hat.view(), c.inverse, c.gamma.view().data, dy.view(), dx.view(),
                false);
  const auto loss = [&](const GuardedMatrix& x) {  // Σ dy⊙y, in double
    const Reference ref = reference(c.kind, x, 0);
    double sum = 0.0;
    for (std::size_t j = 0; j < 9; ++j) sum += dy.at(0, j) * c.gamma.at(0, j) * ref.x_hat[j];
    return sum;
  };
  for (std::size_t j = 0; j < 9; ++j) {
    auto up = c.x;
    auto down = c.x;
    up.at(0, j) += 0x1p-8F;
    down.at(0, j) -= 0x1p-8F;
    const double step = double{up.at(0, j)} - double{down.at(0, j)};
    EXPECT_NEAR(dx.at(0, j), (loss(up) - loss(down)) / step, 1e-4);
  }
}

TEST(Norm, AccumulateSumsOverRows) {
  for_each_target([] {
    for_each_case([](Case c) {
      c.forward();
      const auto dy = GuardedMatrix::random(c.rows, c.d, 4);
      const auto before = GuardedMatrix::random(2, c.d, 6);
      auto sums = before;
      norm_accumulate(c.kind, c.x_hat.view(), dy.view(), sums.view().row_data(0),
                      c.kind == NormKind::kLayer ? sums.view().row_data(1) : nullptr);
      EXPECT_TRUE(sums.intact());
      for (std::size_t j = 0; j < c.d; ++j) {
        double dgamma = before.at(0, j);
        double dbeta = before.at(1, j);
        double size = 1.0;
        for (std::size_t i = 0; i < c.rows; ++i) {
          dgamma += double{dy.at(i, j)} * c.x_hat.at(i, j);
          dbeta += c.kind == NormKind::kLayer ? dy.at(i, j) : 0.0;
          size += std::fabs(double{dy.at(i, j)} * c.x_hat.at(i, j)) + std::fabs(dy.at(i, j));
        }
        ASSERT_NEAR(sums.at(0, j), dgamma, 1e-6 * size) << j;
        ASSERT_NEAR(sums.at(1, j), dbeta, 1e-6 * size) << j;
      }
    });
  });
}

TEST(Norm, BitsDoNotDependOnThreads) {
  std::optional<GuardedMatrix> y;
  std::optional<GuardedMatrix> sums;
  for_each_thread_count([&] {
    Case c{NormKind::kLayer, 700, 193};
    c.forward();
    GuardedMatrix s(2, 193);
    norm_accumulate(c.kind, c.x_hat.view(), c.y.view(), s.view().row_data(0), s.view().row_data(1));
    if (!y) y = c.y;
    if (!sums) sums = s;
    EXPECT_EQ(c.y, *y);
    EXPECT_EQ(s, *sums);
  });
}

TEST(Norm, MetersWhatTheHeaderSays) {
  for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
    const bool layer = kind == NormKind::kLayer;
    Case c{kind, 3, 10};
    Meter meter;
    const Meter::Use use(meter);
    c.forward();
    Work want;
    const auto norm = static_cast<std::size_t>(Kind::kNorm);
    want[Kind::kNorm] = 3 * (layer ? 75 : 44);
    want.bytes[norm] = 4 * (90 + 3 + (layer ? 20 : 10));
    EXPECT_EQ(meter.total(Phase::kForward), want);

    meter.clear();
    GuardedMatrix dx(3, 10);
    norm_backward(kind, c.x_hat.view(), c.inverse, c.gamma.view().data, c.y.view(), dx.view(),
                  true);
    want = {};
    want[Kind::kNorm] = 3 * (layer ? 82 : 61);
    want[Kind::kAdd] = 30;
    want.bytes[norm] = 4 * (90 + 3 + 10);
    want.bytes[static_cast<std::size_t>(Kind::kAdd)] = 120;
    EXPECT_EQ(meter.total(Phase::kForward), want);

    meter.clear();
    norm_accumulate(kind, c.x_hat.view(), c.y.view(), c.gamma.view().data,
                    layer ? c.beta.view().data : nullptr);
    want = {};
    want[Kind::kNorm] = 3 * (layer ? 30 : 20);
    want.bytes[norm] = 4 * (60 + 2 * (layer ? 20 : 10));
    EXPECT_EQ(meter.total(Phase::kForward), want);
  }
}

TEST(Norm, SaysWhatDoesNotFit) {
  Case c{NormKind::kLayer, 2, 4};
  GuardedMatrix y(2, 5);
  EXPECT_THROW(norm_forward(c.kind, kEpsilon, c.x.view(), c.gamma.view().data, c.beta_data(),
                            y.view(), {}, {}),
               Error);
  c.inverse.resize(1);
  EXPECT_THROW(c.forward(), Error);
}

}  // namespace norm_test
}  // namespace longspan
