#include "longspan/attention/exact/full.h"

#include <gtest/gtest.h>

#include "longspan/base/error.h"
#include "longspan/testing/check_attention.h"
#include "longspan/testing/for_each_target.h"

namespace longspan {
namespace full_test {

using testing::AttentionCase;
using testing::AttentionProblem;
using testing::BiasKind;

std::vector<std::complex<double>> complex_of(const std::vector<double>& x) {
  return {x.begin(), x.end()};
}

// Σ dy⊙y by complex step along every element of one tensor of the reference.
template <class Tensor>
std::vector<double> complex_step(const FullReference<double>& real, const std::vector<double>& dy,
                                 Tensor tensor) {
  constexpr double kStep = 1e-30;
  FullReference<std::complex<double>> r{.shape = real.shape,
                                        .mask = real.mask,
                                        .dropout = real.dropout,
                                        .q = complex_of(real.q),
                                        .k = complex_of(real.k),
                                        .v = complex_of(real.v),
                                        .bias = complex_of(real.bias)};
  std::vector<double> gradient;
  for (auto& x : r.*tensor) {
    const auto before = x;
    x += std::complex<double>(0.0, kStep);
    const auto y = r.forward();
    double sum = 0.0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += dy[i] * y[i].imag() / kStep;
    gradient.push_back(sum);
    x = before;
  }
  return gradient;
}

TEST(FullReference, BackwardIsTheComplexStepOfForward) {
  const std::vector<AttentionCase> cases = {
      {.m = 3, .n = 5, .d = 2, .e = 3},
      {.batch = 2,
       .heads = 4,
       .kv_heads = 2,
       .m = 5,
       .n = 6,
       .d = 3,
       .e = 2,
       .causal = true,
       .key_lengths = {6, 3},
       .bias = BiasKind::kOwn,
       .dropout = 0.3F},
      {.batch = 2,
       .heads = 2,
       .kv_heads = 1,
       .m = 7,
       .n = 4,
       .d = 2,
       .e = 2,
       .causal = true,
       .bias = BiasKind::kShared,
       .visible = true},
      {.batch = 2,
       .heads = 2,
       .kv_heads = 2,
       .m = 6,
       .n = 5,
       .d = 2,
       .e = 1,
       .key_lengths = {0, 5},
       .bias = BiasKind::kPerHead,
       .visible = true,
       .dropout = 0.5F},
  };
  for (const AttentionCase& c : cases) {
    SCOPED_TRACE(c.name());
    const AttentionProblem p(c);
    const FullReference<double> r = p.reference();
    const std::vector<double> dy(p.dy.begin(), p.dy.end());
    const auto g = r.backward(dy);
    using R = FullReference<std::complex<double>>;
    EXPECT_LT(testing::relative_error(g.q, complex_step(r, dy, &R::q)), 1e-13);
    EXPECT_LT(testing::relative_error(g.k, complex_step(r, dy, &R::k)), 1e-13);
    EXPECT_LT(testing::relative_error(g.v, complex_step(r, dy, &R::v)), 1e-13);
    EXPECT_LT(testing::relative_error(g.bias, complex_step(r, dy, &R::bias)), 1e-13);
  }
}

TEST(Full, SavesItsMatrix) {
  const AttentionCase c{.heads = 2, .kv_heads = 2, .m = 5, .n = 7, .d = 3, .e = 2, .visible = true};
  AttentionProblem p(c);
  p.run(FullAttention());
  const FullReference<double> r = p.reference();
  for (std::size_t row = 0; row < 10; ++row) {
    const std::vector<double> want = r.weights(0, row / 5, row % 5);
    for (std::size_t j = 0; j < 7; ++j) EXPECT_NEAR(p.saved[row * 7 + j], want[j], 1e-6);
  }
}

// The plain transformer of comparisons, without backward too.
TEST(Full, HasItsMatrixInMemory) {
  const AttentionShape s{.batch = 2, .heads = 3, .kv_heads = 3, .m = 500, .n = 300, .d = 4, .e = 4};
  EXPECT_GE(FullAttention().cost(s).forward_scratch, sizeof(float) * 2 * 3 * 500 * 300);
}

TEST(Full, AgreesOnEveryInstructionSet) {
  testing::for_each_target(
      [] { testing::check_exact("full", {.m = 67, .n = 67, .d = 17, .e = 17, .causal = true}); });
}

// formulas.md, part "what an efficient implementation executes": 2MNd and 5MNh + Md forward, 4MNd
// and 4MNh + Md backward, with d the width of the model.
TEST(Full, CountsAsTheFormulas) {
  const std::uint64_t m = 7;
  const std::uint64_t n = 11;
  const std::uint64_t heads = 3;
  const std::uint64_t width = 15;
  for (const bool causal : {false, true}) {
    const AttentionCost cost = FullAttention().cost({.heads = heads,
                                                     .kv_heads = heads,
                                                     .m = m,
                                                     .n = n,
                                                     .d = width / heads,
                                                     .e = width / heads,
                                                     .causal = causal});
    EXPECT_EQ(cost.forward.maccs, 2 * m * n * width);
    EXPECT_EQ(cost.forward.other_flops(), 5 * m * n * heads + m * width);
    EXPECT_EQ(cost.backward.maccs, 4 * m * n * width);
    EXPECT_EQ(cost.backward.other_flops(), 4 * m * n * heads + m * width);
  }
}

TEST(Full, RefusesAMatrixThatDoesNotFit) {
  const AttentionShape huge{
      .heads = 8, .kv_heads = 8, .m = 1U << 22U, .n = 1U << 22U, .d = 64, .e = 64};
  try {
    FullAttention().check(huge);
    FAIL() << "accepted";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find("[full] needs 512.0 TiB for its 8 x 4194304 x 4194304 matrix; "), 0U)
        << text;
    EXPECT_NE(text.find("are available: use flash"), std::string::npos) << text;
  }
  FullAttention().check({.m = 64, .n = 64, .d = 16, .e = 16});
}

}  // namespace full_test
}  // namespace longspan
