#include "longspan/attention/cluster/improved_clustered.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "longspan/attention/cluster/clustered_ref.h"
#include "longspan/base/error.h"
#include "longspan/testing/check_attention.h"
#include "longspan/testing/check_reference.h"
#include "longspan/testing/for_each_target.h"

namespace longspan {
namespace improved_clustered_test {

using testing::AttentionCase;
using testing::AttentionProblem;
using testing::AttentionTensors;
using testing::SitedAttention;

template <class T>
ClusteredReference<T> reference_of(const ImprovedClusteredConfig& config,
                                   const AttentionTensors<T>& t) {
  ClusteredReference<T> r;
  r.config = config.clustering();
  r.shape = t.shape;
  for (const T& x : t.parameters.at("attention.planes")) r.planes.push_back(std::real(x));
  r.q = t.q;
  r.k = t.k;
  r.v = t.v;
  r.improved = true;
  r.top = config.topk;
  return r;
}

std::string options_of(const ImprovedClusteredConfig& config) {
  return fmt::format("improved-clustered:clusters={},topk={},bits={},causal={}", config.clusters,
                     config.topk, config.bits, config.causal ? 1 : 0);
}

void check(const ImprovedClusteredConfig& config, const AttentionCase& c) {
  testing::check_reference(options_of(config), c,
                           [&](const auto& t) { return reference_of(config, t).forward(); });
}

const std::vector<ImprovedClusteredConfig> kVariants = {
    {.clusters = 1, .topk = 3},
    {.clusters = 4, .topk = 5, .bits = 31},
    {.clusters = 50, .topk = 1},
    {.clusters = 3, .topk = 50},
};

TEST(ImprovedClustered, IsItsDefinition) {
  for (const ImprovedClusteredConfig& config : kVariants) {
    check(config, {.m = 1, .n = 1, .d = 1, .e = 1});
    check(config, {.m = 19, .n = 19, .d = 5, .e = 3});
    check(config, {.batch = 2, .heads = 4, .kv_heads = 2, .m = 11, .n = 11, .d = 3, .e = 4});
    check(config, {.batch = 3, .m = 11, .n = 11, .d = 3, .e = 4, .key_lengths = {11, 0, 6}});
    check(config, {.m = 17, .n = 9, .d = 4, .e = 3, .key_lengths = {7}});
  }
}

TEST(ImprovedClustered, IsItsDefinitionWhenCausal) {
  for (ImprovedClusteredConfig config : kVariants) {
    config.causal = true;
    check(config, {.m = 19, .n = 19, .d = 5, .e = 3, .causal = true});
    check(config, {.batch = 2,
                   .heads = 2,
                   .kv_heads = 1,
                   .m = 9,
                   .n = 12,
                   .d = 3,
                   .e = 4,
                   .causal = true,
                   .key_lengths = {12, 6}});
  }
}

TEST(ImprovedClustered, EveryInstructionSet) {
  testing::for_each_target(
      [] { check({.clusters = 5, .topk = 18}, {.m = 77, .n = 21, .d = 3, .e = 2}); });
}

TEST(ImprovedClustered, PassesTheCommonChecks) {
  testing::check_attention("improved-clustered:clusters=7,topk=9,bits=31");
}

// All keys chosen, whatever the clusters; or every query its own cluster, whatever is chosen.
TEST(ImprovedClustered, IsFullAttentionInTheLimit) {
  const AttentionCase c{.batch = 2, .heads = 2, .kv_heads = 2, .m = 67, .n = 67, .d = 16, .e = 9};
  for (const ImprovedClusteredConfig& config : {ImprovedClusteredConfig{.clusters = 1, .topk = 67},
                                                {.clusters = 9, .topk = 67},
                                                {.clusters = 67, .topk = 5}}) {
    SitedAttention attention(options_of(config), c);
    AttentionProblem p(c);
    p.run(attention);
    const auto reference = p.reference();
    const std::vector<double> dy(p.dy.begin(), p.dy.end());
    EXPECT_LE(testing::relative_error({p.y.begin(), p.y.end()}, reference.forward()), 3e-6);
    const auto want = reference.backward(dy);
    EXPECT_LE(testing::relative_error({p.dq.begin(), p.dq.end()}, want.q), 5e-6);
    EXPECT_LE(testing::relative_error({p.dk.begin(), p.dk.end()}, want.k), 5e-6);
    EXPECT_LE(testing::relative_error({p.dv.begin(), p.dv.end()}, want.v), 5e-6);
  }
}

TEST(ImprovedClustered, RowsSumToOne) {
  const AttentionCase c{.batch = 2, .m = 70, .n = 90, .d = 8, .e = 1, .key_lengths = {90, 33}};
  SitedAttention attention("improved-clustered:clusters=9,topk=7", c);
  AttentionProblem p(c);
  std::fill(p.v.begin(), p.v.end(), 1.0F);
  p.run(attention, false);
  for (const float y : p.y) EXPECT_NEAR(y, 1.0F, 2e-6);
}

// Proposition 2: ‖A^t_i − A_i‖₁ ≤ ‖A^c_i − A_i‖₁ for every row.
TEST(ImprovedClustered, IsNeverFartherThanClustered) {
  const AttentionCase c{.m = 60, .n = 50, .d = 6, .e = 2};
  for (const std::size_t top : {1U, 5U, 20U}) {
    const ImprovedClusteredConfig config{.clusters = 6, .topk = top};
    SitedAttention attention(options_of(config), c);
    const AttentionProblem p(c);
    const auto improved = reference_of(config, p.tensors(attention.parameters()));
    auto plain = improved;
    plain.improved = false;
    const auto cluster = improved.assignment(0);
    for (std::size_t i = 0; i < 60; ++i) {
      const auto at = static_cast<std::ptrdiff_t>(i * 6);
      const std::vector<double> query(plain.q.begin() + at, plain.q.begin() + at + 6);
      const auto exact = plain.softmax(plain.scores(0, query, 50));
      const auto near = improved.weights(0, i, cluster);
      const auto far = plain.weights(0, i, cluster);
      double a = 0.0;
      double b = 0.0;
      for (std::size_t j = 0; j < 50; ++j) {
        a += std::abs(near[j] - exact[j]);
        b += std::abs(far[j] - exact[j]);
      }
      EXPECT_LE(a, b + 1e-12) << i;
    }
  }
}

// The authors' gradient leaves out what the mass in T depends on.
TEST(ImprovedClustered, ConstantMassChangesOnlyWhatGoesThroughTheCentroid) {
  const AttentionCase c{.m = 40, .n = 40, .d = 6, .e = 5};
  SitedAttention exact("improved-clustered:clusters=4,topk=8", c);
  SitedAttention constant("improved-clustered:clusters=4,topk=8,gradient=constant-mass", c);
  AttentionProblem a(c);
  AttentionProblem b(c);
  a.run(exact);
  b.run(constant);
  EXPECT_EQ(a.y, b.y);
  EXPECT_EQ(a.dv, b.dv);
  EXPECT_NE(a.dq, b.dq);
  EXPECT_NE(a.dk, b.dk);
}

TEST(ImprovedClustered, RefusesWithAReason) {
  const AttentionShape causal{.m = 8, .n = 8, .d = 4, .e = 4, .causal = true};
  EXPECT_THROW(testing::Alone<ImprovedClusteredAttention>(ImprovedClusteredConfig{})->check(causal),
               Error);
  EXPECT_NO_THROW(
      testing::Alone<ImprovedClusteredAttention>(ImprovedClusteredConfig{.causal = true})
          ->check(causal));
  EXPECT_THROW(ImprovedClusteredAttention::can({.topk = 0}), Error);
  EXPECT_THROW(ImprovedClusteredAttention::can({.gradient = "exakt"}), Error);
}

}  // namespace improved_clustered_test
}  // namespace longspan
