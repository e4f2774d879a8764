#include "longspan/attention/feature/performer.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "longspan/attention/exact/flash.h"
#include "longspan/attention/feature/performer_ref.h"
#include "longspan/base/error.h"
#include "longspan/testing/check_attention.h"
#include "longspan/testing/check_reference.h"
#include "longspan/testing/for_each_target.h"

namespace longspan {
namespace performer_test {

using testing::AttentionCase;
using testing::AttentionProblem;
using testing::SitedAttention;

struct Variant {
  std::string_view options;
  PerformerConfig config;
};

const std::vector<Variant>& variants() {
  static const std::vector<Variant> all = {
      {"performer:features=11", {.features = 11}},
      {"performer", {}},
      {"performer:features=9,kernel=hyperbolic,orthogonal=givens,norms=fixed",
       {.kernel = "hyperbolic", .features = 9, .orthogonal = "givens", .norms = "fixed"}},
      {"performer:features=13,orthogonal=hadamard", {.features = 13, .orthogonal = "hadamard"}},
      {"performer:features=7,kernel=relu,orthogonal=none",
       {.kernel = "relu", .features = 7, .orthogonal = "none"}},
      {"performer:features=6,epsilon=1e-4,sum_epsilon=1e-6",
       {.features = 6, .epsilon = 1e-4F, .sum_epsilon = 1e-6F}},
  };
  return all;
}

TEST(Performer, AgreesWithItsDefinition) {
  const std::vector<AttentionCase> cases = {
      {.m = 1, .n = 1, .d = 1, .e = 1},
      {.m = 21, .n = 21, .d = 5, .e = 3, .columns = true},
      {.batch = 2,
       .heads = 2,
       .kv_heads = 1,
       .m = 7,
       .n = 12,
       .d = 4,
       .e = 2,
       .key_lengths = {12, 5}},
  };
  for (AttentionCase c : cases) {
    for (const Variant& v : variants()) {
      for (const bool causal : {false, true}) {
        c.causal = causal;
        testing::check_reference(v.options, c,
                                 [&](const auto& t) { return performer_reference(v.config, t); });
      }
    }
  }
}

// Features of such keys differ by more than floats can hold.
AttentionProblem far_keys(const AttentionCase& c, const SitedAttention& attention, float scale) {
  AttentionProblem p(c, 1, attention.wants());
  for (float& x : p.k) x *= scale;
  return p;
}

TEST(Performer, KeepsUpWithFarKeys) {
  for (const float scale : {1.0F, 5.0F, 12.0F}) {
    for (const bool causal : {false, true}) {
      const AttentionCase c{
          .heads = 2, .kv_heads = 1, .m = 150, .n = 150, .d = 16, .e = 3, .causal = causal};
      const SitedAttention attention("performer", c);
      AttentionProblem p = far_keys(c, attention, scale);
      p.run(*attention, false);
      const auto want = performer_reference(PerformerConfig{}, p.tensors(attention.parameters()));
      // Exponents are as large as |x|²·√d, and round accordingly.
      EXPECT_LT(testing::relative_error({p.y.begin(), p.y.end()}, want), 1e-6 * scale * scale)
          << scale << " " << causal;
    }
  }
}

TEST(Performer, LearnsFromFarKeys) {
  const PerformerConfig config{.features = 5};
  for (const bool causal : {false, true}) {
    const AttentionCase c{.m = 70, .n = 70, .d = 2, .e = 1, .causal = causal};
    SitedAttention attention("performer:features=5", c);
    AttentionProblem p = far_keys(c, attention, 12.0F);
    p.run(attention);
    auto t = testing::detail::complex_of(p.tensors(attention.parameters()));
    const std::vector<double> dy(p.dy.begin(), p.dy.end());
    const auto expect = [&](const std::vector<float>& got, auto& tensor, const char* what) {
      const auto reference = [&](const auto& z) { return performer_reference(config, z); };
      const auto want = testing::detail::complex_step(reference, t, tensor, dy);
      EXPECT_LT(testing::relative_error({got.begin(), got.end()}, want), 2e-4)
          << what << " " << causal;
    };
    expect(p.dq, t.q, "dq");
    expect(p.dk, t.k, "dk");
    expect(p.dv, t.v, "dv");
  }
}

TEST(Performer, HadamardPassesTheChecksOfAllMechanisms) {
  for (const AttentionCase& c : testing::cases_for(PerformerAttention::can({}))) {
    if (c.n > 130) continue;
    for (const std::string_view options :
         {"performer:features=33,orthogonal=hadamard", "performer:features=8,kernel=relu"}) {
      testing::check_cost(options, c);
      testing::check_causal(options, c);
      testing::check_padding(options, c);
    }
  }
}

// Rows within a block are orthogonal; blocks of other kinds are not a diagonal.
TEST(PerformerFeatures, RowsAreOrthogonalWithinBlocks) {
  for (const Orthogonal kind : {Orthogonal::kQr, Orthogonal::kGivens}) {
    for (const std::size_t d : {1U, 5U, 16U}) {
      std::vector<float> omega((2 * d + 1) * d);
      draw_features(kind, FeatureNorms::kFixed, 3, {omega.data(), 2 * d + 1, d});
      for (std::size_t i = 0; i <= 2 * d; ++i) {
        for (std::size_t j = i / d * d; j <= i; ++j) {
          double dot = 0.0;
          for (std::size_t c = 0; c < d; ++c) dot += double{omega[i * d + c]} * omega[j * d + c];
          EXPECT_NEAR(dot, i == j ? static_cast<double>(d) : 0.0, 1e-5 * static_cast<double>(d));
        }
      }
    }
  }
  constexpr std::size_t kWidth = 16;
  std::vector<float> signs(3 * kWidth);
  std::vector<float> norms(kWidth);
  draw_signs(5, {signs.data(), 3, kWidth});
  draw_norms(FeatureNorms::kFixed, kWidth, 5, norms);
  FeatureProjection projection;
  projection.rows = kWidth;
  projection.hadamard = true;
  projection.signs = signs.data();
  projection.norms = norms.data();
  const std::vector<double> omega = dense_projection(projection, kWidth);
  for (std::size_t i = 0; i < kWidth; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double dot = 0.0;
      for (std::size_t c = 0; c < kWidth; ++c) dot += omega[i * kWidth + c] * omega[j * kWidth + c];
      EXPECT_NEAR(dot, i == j ? 16.0 : 0.0, 1e-4);
    }
  }
}

// E[φ(q)·φ(k)] = exp(q·k/√d): the mean over draws lies within five standard errors.
TEST(PerformerFeatures, EstimateTheKernelWithoutBias) {
  constexpr std::size_t kWidth = 4;
  constexpr int kDraws = 10000;
  const double q[kWidth] = {0.5, -0.3, 0.2, 0.6};
  const double k[kWidth] = {0.4, 0.1, -0.5, 0.3};
  double dot = 0.0;
  double both = 0.0;
  for (std::size_t c = 0; c < kWidth; ++c) {
    dot += q[c] * k[c];
    both += (q[c] + k[c]) * (q[c] + k[c]);
  }
  const double exact = std::exp(dot / 2.0);
  // Independent features have this variance, orthogonal ones less.
  const double deviation = exact * std::sqrt(std::expm1(both / 2.0) / (kWidth * kDraws));
  for (const Orthogonal kind : {Orthogonal::kNone, Orthogonal::kQr}) {
    double mean = 0.0;
    for (int draw = 0; draw < kDraws; ++draw) {
      float omega[kWidth * kWidth];
      draw_features(kind, FeatureNorms::kChi, derive(11, static_cast<std::uint64_t>(draw)),
                    {omega, kWidth, kWidth});
      for (std::size_t r = 0; r < kWidth; ++r) {
        double u = 0.0;
        double norms = 0.0;
        for (std::size_t c = 0; c < kWidth; ++c) {
          u += omega[r * kWidth + c] * (q[c] + k[c]) / std::sqrt(2.0);
          norms += (q[c] * q[c] + k[c] * k[c]) / 4.0;
        }
        mean += std::exp(u - norms) / (kWidth * kDraws);
      }
    }
    EXPECT_NEAR(mean, exact, 5 * deviation) << static_cast<int>(kind);
  }
}

// The relative Frobenius error of the output against exact attention, the mean over draws, for q
// and k of standard deviation ½.
double output_error(const std::string& options, std::size_t features, int draws) {
  const AttentionCase c{.m = 192, .n = 192, .d = 16, .e = 16};
  AttentionProblem exact(c);
  for (auto* x : {&exact.q, &exact.k}) {
    for (float& element : *x) element *= 0.5F;
  }
  AttentionProblem p = exact;
  exact.run(FlashAttention(), false);
  double mean = 0.0;
  for (int draw = 0; draw < draws; ++draw) {
    SitedAttention sited(fmt::format("performer:features={},seed={}{}", features, draw, options),
                         c);
    p.run(*sited, false);
    double error = 0.0;
    double scale = 0.0;
    for (std::size_t i = 0; i < p.y.size(); ++i) {
      error += std::pow(p.y[i] - exact.y[i], 2);
      scale += std::pow(exact.y[i], 2);
    }
    mean += std::sqrt(error / scale) / draws;
  }
  return mean;
}

TEST(Performer, ErrorFallsWithTheRootOfFeatures) {
  constexpr int kDraws = 8;
  double x_mean = 0.0;
  double y_mean = 0.0;
  double xy = 0.0;
  double xx = 0.0;
  std::vector<std::pair<double, double>> points;
  for (const std::size_t features : {64U, 256U, 1024U, 4096U}) {
    const double x = std::log(static_cast<double>(features));
    points.emplace_back(x, std::log(output_error("", features, features > 2000 ? 2 : kDraws)));
  }
  for (const auto& [x, y] : points) {
    x_mean += x / 4.0;
    y_mean += y / 4.0;
  }
  for (const auto& [x, y] : points) {
    xy += (x - x_mean) * (y - y_mean);
    xx += (x - x_mean) * (x - x_mean);
  }
  EXPECT_NEAR(xy / xx, -0.5, 0.1);
}

TEST(Performer, OrthogonalFeaturesBeatIndependentOnes) {
  constexpr int kDraws = 24;
  const double independent = output_error(",orthogonal=none", 64, kDraws);
  const double qr = output_error("", 64, kDraws);
  const double fixed = output_error(",norms=fixed", 64, kDraws);
  const double hadamard = output_error(",norms=fixed,orthogonal=hadamard", 64, kDraws);
  const double givens = output_error(",norms=fixed,orthogonal=givens", 64, kDraws);
  EXPECT_LT(qr, independent);
  EXPECT_LT(fixed, qr);
  EXPECT_NEAR(hadamard / fixed, 1.0, 0.15);
  EXPECT_NEAR(givens / fixed, 1.0, 0.15);
}

// Blocks that share a rotation are as good as blocks that do not.
TEST(Performer, HadamardBlocksAreAsGoodAsIndependentOnes) {
  constexpr int kDraws = 64;
  for (const std::size_t features : {64U, 512U}) {  // 4 and 32 blocks
    const double qr = output_error("", features, kDraws);
    const double hadamard = output_error(",orthogonal=hadamard", features, kDraws);
    EXPECT_NEAR(hadamard / qr, 1.0, 0.05) << features;
  }
}

TEST(Performer, HyperbolicFeaturesHaveLessVarianceThanPositiveOnes) {
  EXPECT_LT(output_error(",kernel=hyperbolic", 128, 16), 1.05 * output_error("", 128, 16));
}

TEST(Performer, DecodingIsThePrefill) {
  const AttentionCase c{
      .heads = 4, .kv_heads = 2, .m = 90, .n = 90, .d = 8, .e = 6, .causal = true};
  for (const Variant& v : variants()) {
    if (v.config.epsilon > 0.0F) continue;
    SCOPED_TRACE(v.options);
    AttentionProblem p(c);
    SitedAttention sited(v.options, c);
    p.run(*sited, false);
    std::vector<float> state;
    for (std::size_t t = 0; t < 90; ++t) {
      AttentionInputs in = p.inputs();
      for (ConstHeads* x : {&in.q, &in.k, &in.v}) {
        x->data += t * x->row_stride;
        x->n = 1;
      }
      const AttentionShape s = shape_of(in);
      state.resize(sited->state_floats(s));
      Arena arena(sited->decode_cost(s).forward_scratch);
      std::vector<float> y(4 * 6);
      sited->decode(in, {y.data(), 1, 4, 1, 6}, state, arena);
      for (std::size_t i = 0; i < y.size(); ++i) {
        EXPECT_NEAR(y[i], p.y[(i / 6 * 90 + t) * 6 + i % 6], 2e-5);
      }
    }
  }
}

TEST(Performer, DrawsAgainOnlyWhenTheStepComes) {
  const AttentionCase c{.m = 4, .n = 4, .d = 4, .e = 4};
  for (const std::string_view kind : {"qr", "hadamard"}) {
    SitedAttention sited(fmt::format("performer:redraw=10,orthogonal={}", kind), c);
    auto values = [&] {
      std::vector<float> all;
      for (const Parameter& p : sited.parameters().all()) {
        EXPECT_TRUE(p.constant);
        all.insert(all.end(), p.value.begin(), p.value.end());
      }
      return all;
    };
    const auto first = values();
    for (const std::uint64_t step : {0U, 1U, 9U}) sited.mechanism().begin_step(step);
    EXPECT_EQ(values(), first);
    sited.mechanism().begin_step(10);
    const auto second = values();
    EXPECT_NE(second, first);
    sited.mechanism().begin_step(20);
    EXPECT_NE(values(), second);
    sited.mechanism().begin_step(10);
    EXPECT_EQ(values(), second);
  }
}

TEST(Performer, TellsTheFeaturesThatNormsNeed) {
  std::vector<float> q = {1.0F, 0.0F, 0.0F, 0.0F};
  std::vector<float> k = {1.0F, 0.0F, 0.0F, 0.0F};
  const ConstHeads a(q.data(), 1, 1, 1, 4);
  const ConstHeads b(k.data(), 1, 1, 1, 4);
  const FeaturesNeeded need = features_needed(a, b, 0.1);
  EXPECT_NEAR(need.worst, (std::exp(2.0) - 1.0) / 0.01, 1e-6);  // ‖q' + k'‖² = 4/√4
  EXPECT_EQ(need.median, need.worst);
  EXPECT_THROW(features_needed(a, b, 0.0), Error);
}

TEST(Performer, CountsFeatures) {
  const AttentionShape s{.m = 64, .n = 64, .d = 64, .e = 64};
  // ⌈64·ln 64⌉ = 267
  const auto alone = [](const PerformerConfig& config) {
    return testing::Alone<PerformerAttention>(config, {.d_model = 64, .d_head = 64});
  };
  EXPECT_EQ(alone({})->map(64).features(64), 267U);
  EXPECT_EQ(alone({.kernel = "hyperbolic", .features = 100})->map(64).projection.rows, 50U);
  // 4·n·M·d, the products, and the normaliser and norms on top.
  const std::uint64_t maccs = alone({.features = 256})->cost(s).forward.maccs;
  EXPECT_EQ(maccs, 4U * 64 * 256 * 64 + 64 * 256 + 64 * 64);
  // The Hadamard product takes no MACC at all for the features.
  const auto fast = alone({.features = 256, .orthogonal = "hadamard"})->cost(s).forward;
  EXPECT_EQ(fast.maccs, 2U * 64 * 256 * 64 + 64 * 256 + 64 * 64);
}

TEST(Performer, RefusesWhatItCannotDo) {
  EXPECT_THROW(PerformerAttention::can({.kernel = "softmax"}), Error);
  EXPECT_THROW(PerformerAttention::can({.orthogonal = "gs"}), Error);
  EXPECT_THROW(PerformerAttention::can({.norms = "one"}), Error);
  EXPECT_THROW(PerformerAttention::can({.sum_epsilon = 1e-6F}), Error);
  EXPECT_FALSE(PerformerAttention::can({.epsilon = 1e-4F}).decode);
}

}  // namespace performer_test
}  // namespace longspan
