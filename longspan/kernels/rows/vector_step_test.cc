#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/base/meter.h"
#include "longspan/kernels/rows/vector.h"
#include "longspan/testing/for_each_target.h"

namespace longspan {
namespace vector_step_test {

using testing::for_each_target;
using testing::for_each_thread_count;

std::vector<float> random(std::size_t n, RandomKey key) {
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = 2.0F * random_uniform(key, i) - 1.0F;
  return x;
}

std::vector<double> wide(const std::vector<float>& x) { return {x.begin(), x.end()}; }

void expect_near(const std::vector<float>& got, const std::vector<double>& want) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], 5e-7 * (1.0 + std::fabs(want[i]))) << i;
  }
}

constexpr int kSteps = 4;
const std::vector<std::size_t> kSizes = {0, 1, 7, 8, 9, 31, 40009};

StepOptions options(float decay) {
  return {.learning_rate = 0.01F, .gradient_scale = 0.5F, .weight_decay = decay, .momentum = 0.8F};
}

TEST(Step, SgdAndMomentumFollowTheirEquations) {
  for_each_target([] {
    for (const std::size_t n : kSizes) {
      for (const float decay : {0.0F, 0.1F}) {
        const StepOptions o = options(decay);
        auto w = random(n, 1);
        auto mw = w;
        std::vector<float> v(n);
        auto want = wide(w);
        auto want_m = wide(w);
        std::vector<double> want_v(n);
        for (int step = 0; step < kSteps; ++step) {
          const auto g = random(n, 10 + step);
          sgd_step(o, g, w);
          momentum_step(o, g, v, mw);
          for (std::size_t i = 0; i < n; ++i) {
            want[i] -= 0.01 * (0.5 * g[i] + decay * want[i]);
            want_v[i] = 0.8 * want_v[i] + (0.5 * g[i] + decay * want_m[i]);
            want_m[i] -= 0.01 * want_v[i];
          }
        }
        expect_near(w, want);
        expect_near(v, want_v);
        expect_near(mw, want_m);
      }
    }
  });
}

// torch.optim.Adam and AdamW.
struct Reference {
  std::vector<double> w, m, v;
  void step(const StepOptions& o, const std::vector<float>& gradients) {
    const double rate = o.learning_rate, decay = o.weight_decay;
    const double c1 = 1.0 - std::pow(o.beta1, o.step);
    const double c2 = 1.0 - std::pow(o.beta2, o.step);
    for (std::size_t i = 0; i < w.size(); ++i) {
      double g = double{o.gradient_scale} * gradients[i];
      if (o.decoupled) {
        w[i] -= rate * decay * w[i];
      } else {
        g += decay * w[i];
      }
      m[i] = o.beta1 * m[i] + (1.0 - o.beta1) * g;
      v[i] = o.beta2 * v[i] + (1.0 - o.beta2) * g * g;
      w[i] -= rate * (m[i] / c1) / (std::sqrt(v[i] / c2) + double{o.epsilon});
    }
  }
};

TEST(Step, AdamFollowsItsEquations) {
  for_each_target([] {
    for (const std::size_t n : kSizes) {
      for (const bool decoupled : {false, true}) {
        StepOptions o = options(decoupled ? 0.1F : 0.05F);
        o.decoupled = decoupled;
        o.beta2 = 0.95;
        o.epsilon = 1e-3F;  // large enough to be seen
        auto w = random(n, 1);
        std::vector<float> m(n);
        std::vector<float> v(n);
        Reference want{wide(w), wide(m), wide(v)};
        for (int step = 0; step < kSteps; ++step) {
          o.step = static_cast<std::uint64_t>(step) + 1;
          const auto g = random(n, 20 + step);
          adam_step(o, g, m, v, w);
          want.step(o, g);
        }
        expect_near(m, want.m);
        expect_near(v, want.v);
        expect_near(w, want.w);
      }
    }
  });
}

TEST(Step, AdamMovesByTheLearningRateFirst) {
  std::vector<float> w = {1.0F};
  std::vector<float> m = {0.0F};
  std::vector<float> v = {0.0F};
  adam_step({}, std::vector<float>{-1e-3F}, m, v, w);
  EXPECT_NEAR(w[0], 1.001F, 1.2e-7);
  EXPECT_THROW(adam_step({.step = 0}, std::vector<float>{1.0F}, m, v, w), Error);
  EXPECT_THROW(adam_step({}, std::vector<float>(2), m, v, w), Error);
}

TEST(Step, BitsDoNotDependOnThreads) {
  std::optional<std::vector<float>> first;
  for_each_thread_count([&] {
    auto w = random(100003, 1);
    std::vector<float> m(w.size());
    std::vector<float> v(w.size());
    adam_step({}, random(w.size(), 2), m, v, w);
    if (!first) first = w;
    EXPECT_EQ(w, *first);
  });
}

TEST(Step, MetersWhatTheHeaderSays) {
  Meter meter;
  const Meter::Use use(meter);
  std::vector<float> w(10);
  std::vector<float> m(10);
  std::vector<float> v(10);
  const std::vector<float> g(10);
  const auto expect = [&](std::uint64_t flops, std::uint64_t bytes, auto&& call) {
    meter.clear();
    call();
    EXPECT_EQ(meter.total(Phase::kForward)[Kind::kOptimizer], flops);
    EXPECT_EQ(meter.total(Phase::kForward).total_bytes(), bytes);
  };
  const StepOptions decayed = options(0.1F);
  expect(20, 120, [&] { sgd_step({}, g, w); });
  expect(40, 120, [&] { sgd_step(decayed, g, w); });
  expect(40, 200, [&] { momentum_step({}, g, v, w); });
  expect(60, 200, [&] { momentum_step(decayed, g, v, w); });
  expect(120, 280, [&] { adam_step({}, g, m, v, w); });
  expect(140, 280, [&] { adam_step(decayed, g, m, v, w); });
}

}  // namespace vector_step_test
}  // namespace longspan
