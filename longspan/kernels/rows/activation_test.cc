#include "longspan/kernels/rows/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/base/meter.h"
#include "longspan/testing/for_each_target.h"
#include "longspan/testing/guarded_matrix.h"

namespace longspan {
namespace activation_test {

using testing::for_each_target;
using testing::for_each_thread_count;
using testing::GuardedMatrix;

constexpr Activation kAll[] = {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh,
                               Activation::kSilu, Activation::kTanh, Activation::kQuickGelu,
                               Activation::kRelu2};
constexpr double kEpsilon = std::numeric_limits<float>::epsilon();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct ValueAndSlope {
  double value;
  double slope;
};

ValueAndSlope reference(Activation f, double x) {
  using std::numbers::pi;
  switch (f) {
    case Activation::kRelu:
      return {std::max(x, 0.0), x > 0.0 ? 1.0 : 0.0};
    case Activation::kGelu: {
      const double cdf = 0.5 * std::erfc(-x / std::sqrt(2.0));
      return {x * cdf, cdf + x * std::exp(-0.5 * x * x) / std::sqrt(2.0 * pi)};
    }
    case Activation::kGeluTanh: {
      const double c = std::sqrt(2.0 / pi);
      const double u = c * (x + 0.044715 * x * x * x);
      const double gate = 1.0 / (1.0 + std::exp(-2.0 * u));  // ½·(1 + tanh u)
      const double sech2 = 1.0 / (std::cosh(u) * std::cosh(u));
      return {x * gate, gate + 0.5 * x * sech2 * c * (1.0 + 3.0 * 0.044715 * x * x)};
    }
    case Activation::kSilu: {
      const double s = 1.0 / (1.0 + std::exp(-x));
      return {x * s, s + x * s / (1.0 + std::exp(x))};
    }
    case Activation::kTanh:
      return {std::tanh(x), 1.0 / (std::cosh(x) * std::cosh(x))};
    case Activation::kQuickGelu: {
      const double z = 1.702 * x;
      const double s = 1.0 / (1.0 + std::exp(-z));
      return {x * s, s + z * s / (1.0 + std::exp(z))};
    }
    case Activation::kRelu2:
      return {x > 0.0 ? x * x : 0.0, 2.0 * std::max(x, 0.0)};
  }
  return {};
}

// The size of the exponent in f, times the number of roundings it takes over two: each changes the
// tail of f, relatively, by ε/2 of the exponent.
double exponent(Activation f, double x) {
  switch (f) {
    case Activation::kGelu:
      return 0.5 * x * x;
    case Activation::kGeluTanh:
      return 2.0 * 1.6 * std::fabs(x + 0.044715 * x * x * x);
    case Activation::kSilu:
      return std::fabs(x);
    case Activation::kQuickGelu:
      return 2.0 * 1.702 * std::fabs(x);
    default:
      return 0.0;
  }
}

// A matrix with one row of values over [−20, 20], dense around 0, and then tiny ones.
GuardedMatrix arguments() {
  constexpr std::size_t kCount = 40001;
  GuardedMatrix x(1, kCount + 40);
  for (std::size_t j = 0; j < kCount; ++j) {
    const double t = (static_cast<double>(j) - 20000.0) / 20000.0;
    x.at(0, j) = static_cast<float>(20.0 * t * std::fabs(t));
  }
  for (std::size_t j = 0; j < 40; ++j) {
    x.at(0, kCount + j) = (j % 2 == 0 ? 1.0F : -1.0F) * std::pow(10.0F, -static_cast<float>(j));
  }
  return x;
}

TEST(Activation, ValuesAndSlopesAreAccurate) {
  const auto x = arguments();
  const std::size_t n = x.view().cols;
  for_each_target([&] {
    for (const Activation f : kAll) {
      SCOPED_TRACE(name_of(f));
      GuardedMatrix h(1, n);
      GuardedMatrix dz(1, n);
      GuardedMatrix ones(1, n);
      std::ranges::fill(ones.view().row(0), 1.0F);
      activation_forward(f, x.view(), h.view());
      activation_backward(f, x.view(), ones.view(), dz.view());
      ASSERT_TRUE(h.intact());
      ASSERT_TRUE(dz.intact());
      for (std::size_t j = 0; j < n; ++j) {
        const ValueAndSlope want = reference(f, x.at(0, j));
        const double relative = kEpsilon * (4.0 + exponent(f, x.at(0, j)));
        ASSERT_NEAR(h.at(0, j), want.value, relative * std::fabs(want.value) + 1e-36)
            << "at " << x.at(0, j);
        ASSERT_NEAR(dz.at(0, j), want.slope, relative * std::fabs(want.slope) + 2 * kEpsilon)
            << "at " << x.at(0, j);
      }
    }
  });
}

TEST(Activation, LimitsAreReachedWithoutNaN) {
  const std::vector<float> x = {kInfinity, -kInfinity, 1e30F,
                                -1e30F,    200.0F,     -200.0F,
                                0.0F,      -0.0F,      std::numeric_limits<float>::denorm_min()};
  for_each_target([&] {
    for (const Activation f : kAll) {
      SCOPED_TRACE(name_of(f));
      std::vector<float> h(x.size());
      activation_serial(f, x.data(), h.data(), x.size());
      std::vector<float> dz(x.size(), 1.0F);
      activation_backward(f, {x.data(), 1, x.size()}, {dz.data(), 1, dz.size()},
                          {dz.data(), 1, dz.size()});
      for (std::size_t j = 0; j < 6; ++j) {
        const bool up = x[j] > 0;
        if (f == Activation::kRelu2) {
          EXPECT_EQ(h[j], up ? x[j] * x[j] : 0.0F) << x[j];
          EXPECT_EQ(dz[j], up ? 2.0F * x[j] : 0.0F) << x[j];
          continue;
        }
        const float limit = f == Activation::kTanh ? (up ? 1.0F : -1.0F) : (up ? x[j] : 0.0F);
        EXPECT_EQ(h[j], limit) << x[j];
        EXPECT_NEAR(dz[j], f == Activation::kTanh ? 0.0F : (up ? 1.0F : 0.0F), 1e-30) << x[j];
      }
      EXPECT_EQ(h[6], 0.0F);
      EXPECT_EQ(h[7], 0.0F);
      EXPECT_NEAR(dz[6], reference(f, 0.0).slope, 1.2e-7);
    }
  });
}

TEST(Activation, NaNIsNotHidden) {
  for_each_target([] {
    for (const Activation f : kAll) {
      const float nan = std::numeric_limits<float>::quiet_NaN();
      float h = 0.0F;
      activation_serial(f, &nan, &h, 1);
      EXPECT_TRUE(std::isnan(h)) << name_of(f);
    }
  });
}

TEST(Activation, EverySizeInPlaceAndWithGaps) {
  for_each_target([] {
    for (const Activation f : kAll) {
      for (const std::size_t guard : {0, 3}) {
        for (const std::size_t cols : {0, 1, 7, 8, 9, 31, 67}) {
          GuardedMatrix z(5, cols, guard);
          for (std::size_t i = 0; i < z.view().size(); ++i) {
            z.at(i / cols, i % cols) = 4.0F * random_uniform(1, i) - 2.0F;
          }
          auto h = z;
          activation_forward(f, h.view(), h.view());
          auto dz = z;
          activation_backward(f, z.view(), dz.view(), dz.view());
          EXPECT_TRUE(h.intact());
          EXPECT_TRUE(dz.intact());
          for (std::size_t i = 0; i < z.view().size(); ++i) {
            const float x = z.at(i / cols, i % cols);
            const ValueAndSlope want = reference(f, x);
            ASSERT_NEAR(h.at(i / cols, i % cols), want.value, 6e-7);
            ASSERT_NEAR(dz.at(i / cols, i % cols), want.slope * x, 1.2e-6);
          }
        }
      }
    }
  });
}

TEST(Activation, GatedFormsMultiply) {
  for_each_target([] {
    for (const Activation f : kAll) {
      for (const std::size_t cols : {1, 8, 13, 4001}) {
        const auto g = GuardedMatrix::random(3, cols, 1, 2.0F);
        const auto u = GuardedMatrix::random(3, cols, 2);
        const auto dh = GuardedMatrix::random(3, cols, 3);
        GuardedMatrix h(3, cols);
        gated_forward(f, g.view(), u.view(), h.view());
        GuardedMatrix dg(3, cols);
        GuardedMatrix du(3, cols);
        gated_backward(f, g.view(), u.view(), dh.view(), dg.view(), du.view());
        auto in_dh = dh;
        gated_backward(f, g.view(), u.view(), in_dh.view(), in_dh.view(), du.view());
        EXPECT_EQ(in_dh, dg);
        in_dh = dh;
        gated_backward(f, g.view(), u.view(), in_dh.view(), dg.view(), in_dh.view());
        EXPECT_EQ(in_dh, du);
        for (std::size_t i = 0; i < 3; ++i) {
          for (std::size_t j = 0; j < cols; ++j) {
            const ValueAndSlope want = reference(f, g.at(i, j));
            ASSERT_NEAR(h.at(i, j), want.value * u.at(i, j), 6e-7);
            ASSERT_NEAR(du.at(i, j), want.value * dh.at(i, j), 6e-7);
            ASSERT_NEAR(dg.at(i, j), want.slope * dh.at(i, j) * u.at(i, j), 1.2e-6);
          }
        }
      }
    }
  });
}

TEST(Activation, BitsDoNotDependOnThreads) {
  const auto z = GuardedMatrix::random(300, 401, 1, 5.0F);
  std::optional<GuardedMatrix> first;
  for_each_thread_count([&] {
    GuardedMatrix h(300, 401);
    activation_forward(Activation::kGelu, z.view(), h.view());
    if (!first) first = h;
    EXPECT_EQ(h, *first);
  });
}

TEST(Activation, MetersWhatTheHeaderSays) {
  Meter meter;
  const Meter::Use use(meter);
  GuardedMatrix z(3, 5);
  const auto spent = [&](auto&& call) {
    meter.clear();
    call();
    return meter.total(Phase::kForward);
  };
  for (const Activation f : kAll) {
    const auto [forward, backward] = flops_of(f);
    const auto run = [&, f = f] { activation_forward(f, z.view(), z.view()); };
    EXPECT_EQ(spent(run)[Kind::kActivation], 15 * forward);
    EXPECT_EQ(spent(run).total_bytes(), 15U * 8);
    const auto back = [&, f = f] { activation_backward(f, z.view(), z.view(), z.view()); };
    EXPECT_EQ(spent(back)[Kind::kActivation], 15 * backward);
    EXPECT_EQ(spent(back).total_bytes(), 15U * 12);
    GuardedMatrix y(3, 5);
    const auto gated = [&, f = f] { gated_forward(f, z.view(), z.view(), y.view()); };
    EXPECT_EQ(spent(gated)[Kind::kActivation], 15 * (forward + 1));
    const auto gated_back = [&, f = f] {
      gated_backward(f, z.view(), z.view(), z.view(), z.view(), y.view());
    };
    EXPECT_EQ(spent(gated_back)[Kind::kActivation], 15 * (forward + backward + 2));
    EXPECT_EQ(spent([&, f = f] { activation_serial(f, z.view().data, y.view().data, 5); }), Work{});
  }
  EXPECT_EQ(flops_of(Activation::kGeluTanh).forward, 8U);
  EXPECT_EQ(flops_of(Activation::kGeluTanh).backward, 14U);
}

}  // namespace activation_test
}  // namespace longspan
