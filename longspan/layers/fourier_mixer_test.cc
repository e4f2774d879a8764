#include "longspan/layers/fourier_mixer.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numbers>
#include <string>

#include "longspan/base/error.h"
#include "longspan/kernels/fourier/fourier.h"
#include "longspan/kernels/rows/draw_normal.h"
#include "longspan/layers/residual.h"
#include "longspan/testing/allocations.h"
#include "longspan/testing/check_branch.h"
#include "longspan/testing/dry_branch.h"

namespace longspan {
namespace fourier_mixer_test {

using testing::Complex;
using testing::Tensor;
using testing::Weights;

Pass pass_of(std::size_t batch, std::size_t length) {
  Pass pass;
  pass.batch = batch;
  pass.length = length;
  return pass;
}

Tensor<Complex> reference(std::size_t n, const Tensor<Complex>& x) {
  const std::size_t d = x.cols;
  Tensor<Complex> y = x;
  for (std::size_t out = 0; out < x.rows * d; ++out) {
    const std::size_t k = out / d % n;
    const std::size_t l = out % d;
    const std::size_t first = out / d - k;
    Complex sum = 0.0;
    for (std::size_t m = 0; m < n; ++m) {
      for (std::size_t j = 0; j < d; ++j) {
        const double turns = static_cast<double>(m * k % n) / static_cast<double>(n) +
                             static_cast<double>(j * l % d) / static_cast<double>(d);
        sum += std::cos(2.0 * std::numbers::pi * turns) * x.data[(first + m) * d + j];
      }
    }
    y.data[out] = sum;
  }
  return y;
}

TEST(FourierMixer, KeepsItsPromises) {
  const FourierMixer mixer({});
  Parameters none;
  none.allocate();
  for (const std::array<std::size_t, 3>& s :
       {std::array<std::size_t, 3>{1, 1, 1}, {2, 5, 8}, {1, 16, 9}, {3, 7, 6}, {1, 67, 4}}) {
    testing::BranchCase check;
    check.branch = &mixer;
    check.parameters = &none;
    check.pass = pass_of(s[0], s[1]);
    check.d_model = s[2];
    check.reference = [&](const Weights& w) { return reference(s[1], w.get<Complex>("x")); };
    testing::expect_branch(check);
  }
}

TEST(FourierMixer, DryIsWet) {
  const FourierMixer mixer({});
  std::vector<float> x(2 * 20 * 12, 1.0F);
  std::vector<float> y(x.size());
  const Pass pass = pass_of(2, 20);
  const auto rows = [&](std::vector<float>& v) { return Matrix(v.data(), 40, 12); };
  const CostTable cost = testing::expect_dry_is_wet([&](Arena& arena) {
    {
      const Place::Scope scope(mixer.meter_name(), Phase::kForward);
      mixer.forward({pass, rows(x), rows(y), nullptr, {}, arena});
    }
    const Place::Scope scope(mixer.meter_name(), Phase::kBackward);
    mixer.backward({pass, {}, rows(x), rows(y), {}, arena});
  });
  const Work once = fourier_work(2, 20, 12);
  EXPECT_EQ(cost.at("fnet").forward, once);
  EXPECT_EQ(cost.at("fnet").backward, once);
  EXPECT_EQ(cost.at("fnet").update, Work{});
}

TEST(FourierMixer, AllocatesInTheFirstStepOnly) {
  const FourierMixer mixer({});
  std::vector<float> x(77 * 22, 1.0F);
  const Matrix rows(x.data(), 77, 22);
  Arena arena(1U << 20U);
  const auto step = [&] { mixer.forward({pass_of(1, 77), rows, rows, nullptr, {}, arena}); };
  step();
  const std::size_t before = testing::allocations();
  step();
  EXPECT_EQ(testing::allocations(), before);
}

// What padding holds reaches every position.
TEST(FourierMixer, PaddingIsMixedIn) {
  const FourierMixer mixer({});
  std::vector<float> x(6 * 4, 0.5F);
  std::vector<float> a(x.size());
  std::vector<float> b(x.size());
  Pass pass = pass_of(1, 6);
  const std::array<std::int32_t, 1> lengths = {3};
  pass.lengths = lengths;
  Arena arena(1U << 20U);
  mixer.check(pass);
  mixer.forward({pass, Matrix(x.data(), 6, 4), Matrix(a.data(), 6, 4), nullptr, {}, arena});
  x[5 * 4] += 1.0F;
  mixer.forward({pass, Matrix(x.data(), 6, 4), Matrix(b.data(), 6, 4), nullptr, {}, arena});
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NE(a[i], b[i]) << i;
}

// As in the paper's model, whose mixing is added to its input whole.
TEST(FourierMixer, TakesNoDropoutInAResidual) {
  Parameters parameters;
  const auto branch = [] { return std::make_unique<FourierMixer>(FourierMixerConfig{}); };
  const auto norm = [&](const char* name) {
    return ResidualNorms{std::make_unique<Norm>(parameters, name, NormKind::kLayer, 8, 1e-5F)};
  };
  const Residual dropped(branch(), norm("a"), Wiring::kPostNorm, 8, 0.5F);
  const Residual whole(branch(), norm("b"), Wiring::kPostNorm, 8, 0.0F);
  parameters.allocate();
  parameters.initialize(1, draw_normal);
  std::vector<float> x(10 * 8);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = random_normal(7, i);
  std::vector<float> a(x.size());
  std::vector<float> b(x.size());
  Pass pass = pass_of(2, 5);
  pass.training = true;
  pass.key = 3;
  Arena arena(1U << 20U);
  dropped.forward(pass, Matrix(x.data(), 10, 8), Matrix(a.data(), 10, 8), nullptr, {}, arena);
  whole.forward(pass, Matrix(x.data(), 10, 8), Matrix(b.data(), 10, 8), nullptr, {}, arena);
  EXPECT_EQ(a, b);
}

TEST(FourierMixer, RefusesWhatItCannotBe) {
  const auto text = [](const auto& body) {
    try {
      body();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(text([] { const FourierMixer mixer({.causal = true}); }),
            "[fnet] every position reads every other, so it cannot be causal; need an encoder");
  EXPECT_EQ(text([] { const FourierMixer mixer({.cross = true}); }),
            "[fnet] mixes within one sequence; cross-attention needs an attention mechanism");
  const FourierMixer mixer({});
  DecodeCache cache;
  Arena arena(0);
  Pass pass = pass_of(1, 4);
  EXPECT_FALSE(mixer.decodes());
  EXPECT_EQ(text([&] {
              mixer.forward({pass, {}, {}, nullptr, {.cache = &cache}, arena});
            }),
            "[fnet] cannot decode token by token; need causal self-attention");
  pass.history_length = 2;
  EXPECT_EQ(text([&] { mixer.check(pass); }),
            "[fnet] cannot read earlier segments; need attention with a history");
}

}  // namespace fourier_mixer_test
}  // namespace longspan
