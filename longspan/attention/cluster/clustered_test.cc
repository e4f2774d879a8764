#include "longspan/attention/cluster/clustered.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "longspan/attention/cluster/clustered_ref.h"
#include "longspan/base/error.h"
#include "longspan/testing/check_attention.h"
#include "longspan/testing/check_reference.h"
#include "longspan/testing/for_each_target.h"

namespace longspan {
namespace clustered_test {

using testing::AttentionCase;
using testing::AttentionProblem;
using testing::AttentionTensors;
using testing::SitedAttention;

template <class T>
ClusteredReference<T> reference_of(const ClusteringConfig& config, const AttentionTensors<T>& t) {
  ClusteredReference<T> r;
  r.config = config;
  r.shape = t.shape;
  for (const T& x : t.parameters.at("attention.planes")) r.planes.push_back(std::real(x));
  r.q = t.q;
  r.k = t.k;
  r.v = t.v;
  return r;
}

void check(const ClusteredConfig& config, const AttentionCase& c) {
  const std::string options = fmt::format("clustered:clusters={},bits={},iterations={}",
                                          config.clusters, config.bits, config.iterations);
  testing::check_reference(
      options, c, [&](const auto& t) { return reference_of(config.clustering(), t).forward(); });
}

const std::vector<ClusteredConfig> kVariants = {
    {.clusters = 1},
    {.clusters = 4, .bits = 31},
    {.clusters = 7, .bits = 5, .iterations = 2},
    {.clusters = 50},
};

TEST(Clustered, IsItsDefinition) {
  for (const ClusteredConfig& config : kVariants) {
    check(config, {.m = 1, .n = 1, .d = 1, .e = 1});
    check(config, {.m = 19, .n = 19, .d = 5, .e = 3});
    check(config, {.batch = 2, .heads = 4, .kv_heads = 2, .m = 11, .n = 11, .d = 3, .e = 4});
    check(config, {.batch = 2, .m = 11, .n = 11, .d = 3, .e = 4, .key_lengths = {11, 6}});
    check(config, {.m = 17, .n = 9, .d = 4, .e = 3, .key_lengths = {7}});
  }
}

TEST(Clustered, EveryInstructionSet) {
  testing::for_each_target([] { check({.clusters = 5}, {.m = 37, .n = 21, .d = 5, .e = 3}); });
}

TEST(Clustered, PassesTheCommonChecks) { testing::check_attention("clustered:clusters=7,bits=31"); }

// With a cluster for every query, and with identical queries in one, nothing is approximate.
TEST(Clustered, IsFullAttentionInTheLimit) {
  const AttentionCase c{.batch = 2, .heads = 2, .kv_heads = 2, .m = 67, .n = 67, .d = 16, .e = 9};
  auto error = [](AttentionProblem& p, SitedAttention& attention) {
    p.run(attention, false);
    return testing::relative_error({p.y.begin(), p.y.end()}, p.reference().forward());
  };
  SitedAttention own("clustered:clusters=67", c);
  AttentionProblem p(c);
  EXPECT_LE(error(p, own), 2e-6);
  SitedAttention one("clustered:clusters=1", c);
  AttentionProblem same(c);
  for (std::size_t i = 0; i < same.q.size(); ++i) {
    same.q[i] = same.q[i / (67 * 16) * 67 * 16 + i % 16];
  }
  EXPECT_LE(error(same, one), 2e-6);
  EXPECT_GT(error(p, one), 1e-2);
}

TEST(Clustered, RowsSumToOne) {
  const AttentionCase c{.batch = 2, .m = 70, .n = 90, .d = 8, .e = 1, .key_lengths = {90, 33}};
  SitedAttention clustered("clustered:clusters=9", c);
  AttentionProblem p(c);
  std::fill(p.v.begin(), p.v.end(), 1.0F);
  p.run(clustered, false);
  for (const float y : p.y) EXPECT_NEAR(y, 1.0F, 1e-6);
}

double norm(const std::vector<double>& x) {
  double square = 0.0;
  for (const double e : x) square += e * e;
  return std::sqrt(square);
}

// Proposition 1 of the paper: rows of attention differ no more than their queries do,
// ‖A_i − A_j‖ ≤ ‖q_i − q_j‖·‖K‖ (with the scale 1/√d, and the Frobenius norm above the spectral).
TEST(Clustered, RowsAreAsCloseAsTheirQueries) {
  const AttentionCase c{.m = 40, .n = 30, .d = 6, .e = 2};
  SitedAttention clustered("clustered", c);
  const AttentionProblem p(c);
  const auto r = reference_of(ClusteredConfig().clustering(), p.tensors(clustered.parameters()));
  auto query = [&](std::size_t i) {
    return std::vector<double>(r.q.begin() + static_cast<std::ptrdiff_t>(i * 6),
                               r.q.begin() + static_cast<std::ptrdiff_t>(i * 6 + 6));
  };
  auto difference = [](std::vector<double> a, const std::vector<double>& b) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
    return norm(a);
  };
  for (std::size_t i = 0; i < 40; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double rows =
          difference(r.softmax(r.scores(0, query(i), 30)), r.softmax(r.scores(0, query(j), 30)));
      EXPECT_LE(rows, difference(query(i), query(j)) * norm(r.k) / std::sqrt(6.0));
    }
  }
}

TEST(Clustered, CannotBeCausal) {
  try {
    testing::Alone<ClusteredAttention>(ClusteredConfig{})
        ->check({.m = 8, .n = 8, .d = 4, .e = 4, .causal = true});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[clustered] cannot be causal");
  }
  EXPECT_THROW(ClusteredAttention::can({.bits = 64}), Error);
  EXPECT_THROW(ClusteredAttention::can({.clusters = 0}), Error);
}

}  // namespace clustered_test
}  // namespace longspan
