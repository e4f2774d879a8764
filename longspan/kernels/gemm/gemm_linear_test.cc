#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/base/meter.h"
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/testing/for_each_target.h"
#include "longspan/testing/guarded_matrix.h"

namespace longspan {
namespace gemm_linear_test {

using testing::for_each_target;
using testing::for_each_thread_count;
using testing::GuardedMatrix;

struct Case {
  std::size_t n;
  std::size_t in;
  std::size_t out;
  GuardedMatrix x = GuardedMatrix::random(n, in, 1);
  GuardedMatrix w = GuardedMatrix::random(out, in, 2);
  GuardedMatrix bias = GuardedMatrix::random(1, out, 3);

  double at(std::size_t i, std::size_t j, bool with_bias) const {
    double sum = with_bias ? bias.at(0, j) : 0.0;
    for (std::size_t l = 0; l < in; ++l) sum += double{x.at(i, l)} * w.at(j, l);
    return sum;
  }
  double tolerance() const { return 1.2e-7 * (static_cast<double>(in) + 2.0); }
};

const std::vector<Case> kCases = {{1, 1, 1},    {1, 40, 17},     {3, 0, 5},
                                  {7, 13, 9},   {0, 4, 5},       {4, 5, 0},
                                  {29, 31, 33}, {130, 100, 257}, {301, 67, 129}};

TEST(Linear, ForwardAddsTheBias) {
  for_each_target([] {
    for (const Case& c : kCases) {
      for (const bool with_bias : {false, true}) {
        GuardedMatrix y(c.n, c.out);
        linear_forward(c.x.view(), c.w.view(), with_bias ? c.bias.view().data : nullptr, y.view());
        EXPECT_TRUE(y.intact());
        for (std::size_t i = 0; i < c.n; ++i) {
          for (std::size_t j = 0; j < c.out; ++j) {
            ASSERT_NEAR(y.at(i, j), c.at(i, j, with_bias), c.tolerance()) << i << ", " << j;
          }
        }
      }
    }
  });
}

TEST(Linear, ActivationSeesProductAndBias) {
  for_each_target([] {
    for (const Activation f : {Activation::kRelu, Activation::kGelu, Activation::kSilu}) {
      for (const Case& c : kCases) {
        for (const bool with_bias : {false, true}) {
          const float* bias = with_bias ? c.bias.view().data : nullptr;
          GuardedMatrix want_z(c.n, c.out);
          GuardedMatrix want_h(c.n, c.out);
          linear_forward(c.x.view(), c.w.view(), bias, want_z.view());
          activation_forward(f, want_z.view(), want_h.view());
          GuardedMatrix z(c.n, c.out);
          GuardedMatrix h(c.n, c.out);
          linear_activation_forward(c.x.view(), c.w.view(), bias, f, z.view(), h.view());
          EXPECT_EQ(z, want_z);
          EXPECT_EQ(h, want_h);
          GuardedMatrix alone(c.n, c.out);
          linear_activation_forward(c.x.view(), c.w.view(), bias, f, {}, alone.view());
          EXPECT_EQ(alone, want_h);
        }
      }
    }
  });
}

TEST(Linear, EveryElementOfALargeOutputIsFinishedOnce) {
  const Case c{200, 1800, 600};  // W is packed in several blocks
  GuardedMatrix want(c.n, c.out);
  gemm(c.x.view(), c.w.view(), want.view(), {.transpose_b = true});
  for (std::size_t i = 0; i < c.n; ++i) {
    for (std::size_t j = 0; j < c.out; ++j) want.at(i, j) += c.bias.at(0, j);
  }
  GuardedMatrix y(c.n, c.out);
  linear_forward(c.x.view(), c.w.view(), c.bias.view().data, y.view());
  EXPECT_EQ(y, want);
}

TEST(Linear, BitsDoNotDependOnThreads) {
  const Case c{300, 200, 260};
  std::optional<GuardedMatrix> first;
  for_each_thread_count([&] {
    GuardedMatrix h(c.n, c.out);
    linear_activation_forward(c.x.view(), c.w.view(), c.bias.view().data, Activation::kGelu, {},
                              h.view());
    if (!first) first = h;
    EXPECT_EQ(h, *first);
  });
}

TEST(Linear, MetersProductBiasAndActivation) {
  const Case c{3, 4, 5};
  Meter meter;
  const Meter::Use use(meter);
  GuardedMatrix z(3, 5);
  GuardedMatrix h(3, 5);
  linear_activation_forward(c.x.view(), c.w.view(), c.bias.view().data, Activation::kGelu, z.view(),
                            h.view());
  Work work = meter.total(Phase::kForward);
  EXPECT_EQ(work.maccs, 60U);
  EXPECT_EQ(work[Kind::kMatmul], 15U);
  EXPECT_EQ(work[Kind::kActivation], 5U * 15);
  EXPECT_EQ(work.flops(), 120U + 15 + 75);
  meter.clear();
  linear_forward(c.x.view(), c.w.view(), nullptr, z.view());
  work = meter.total(Phase::kForward);
  EXPECT_EQ(work.flops(), 120U);
  EXPECT_EQ(work.total_bytes(), 4U * (12 + 20 + 15));
}

TEST(Linear, SaysWhichShapesDoNotFit) {
  const Case c{3, 4, 5};
  GuardedMatrix y(3, 4);
  try {
    linear_forward(c.x.view(), c.w.view(), nullptr, y.view());
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "[linear] x is 3x4, W is 5x4, y is 3x4; need n×in, out×in, n×out");
  }
}

}  // namespace gemm_linear_test
}  // namespace longspan
