#include "longspan/attention/position/deberta.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longspan/attention/position/deberta_ref.h"
#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "longspan/testing/check_attention.h"
#include "longspan/testing/check_reference.h"
#include "longspan/testing/for_each_target.h"

namespace longspan {
namespace deberta_test {

using testing::AttentionCase;
using testing::AttentionProblem;

void check(const std::string& options, const AttentionCase& c) {
  DebertaConfig config;
  parse_options("deberta", options, config);
  testing::Alone<DebertaAttention> attention(config);
  testing::check_reference("deberta:" + options, c, DebertaReference{*attention});
}

const char* const kOptions[] = {"span=5", "span=40,p2c=0", "span=3,c2p=0",
                                "span=30,buckets=6,key_bias=1,norm=1", "span=9,c2p=0,p2c=0"};

TEST(Deberta, IsWhatItsDefinitionSays) {
  for (const char* options : kOptions) {
    check(options, {.m = 1, .n = 1, .d = 2, .e = 2});
    check(options, {.heads = 2, .kv_heads = 2, .m = 19, .n = 19, .d = 5, .e = 3});
    check(
        options,
        {.batch = 3, .m = 13, .n = 13, .d = 4, .e = 4, .key_lengths = {13, 0, 7}, .dropout = 0.3F});
    check(options, {.m = 17, .n = 17, .d = 4, .e = 4, .causal = true});
  }
}

// More tiles than one, and buckets that are equal, consecutive and neither within a vector.
TEST(Deberta, SpansTiles) {
  check("span=30", {.m = 67, .n = 67, .d = 2, .e = 1});
  check("span=50,buckets=12", {.m = 67, .n = 67, .d = 2, .e = 1});
}

TEST(Deberta, AgreesOnEveryInstructionSet) {
  testing::for_each_target([] {
    for (const char* options : kOptions) {
      check(options, {.heads = 2, .kv_heads = 2, .m = 21, .n = 21, .d = 5, .e = 3});
    }
  });
}

TEST(Deberta, BucketsGrowAndAreOdd) {
  testing::Alone<DebertaAttention> v3(DebertaConfig{.span = 512, .buckets = 256});
  std::int32_t before = -1;
  for (std::ptrdiff_t r = -2000; r <= 2000; ++r) {
    const std::int32_t b = v3->bucket(r);
    EXPECT_GE(b, before);
    EXPECT_TRUE(b >= 0 && b < 512);
    if (r > -128 && r < 128) {
      EXPECT_EQ(b, r + 256);
    } else if (r > -500 && r < 500) {
      EXPECT_EQ(b - 256, -(v3->bucket(-r) - 256));
    }
    before = b;
  }
  testing::Alone<DebertaAttention> v1(DebertaConfig{.span = 7});
  EXPECT_EQ(v1->bucket(-100), 0);
  EXPECT_EQ(v1->bucket(3), 10);
  EXPECT_EQ(v1->bucket(100), 13);
}

// Bucket m + t of the far ones holds the distances from m·q^(t−1), exclusive, to m·q^t with
// q = ((P − 1)/m)^(1/(m − 1)).
TEST(Deberta, FarBucketsGrowGeometrically) {
  testing::Alone<DebertaAttention> v3(DebertaConfig{.span = 512, .buckets = 256});
  const double m = 128.0;
  const double log_q = std::log(511.0 / m) / (m - 1.0);
  constexpr double kRounding = 1e-5;
  for (std::ptrdiff_t r = 129; r < 512; ++r) {
    const double t = v3->bucket(r) - 256 - m;
    const double place = std::log(static_cast<double>(r) / m) / log_q;
    EXPECT_LE(place, t + kRounding) << r;
    EXPECT_GT(place, t - 1.0 - kRounding) << r;
  }
}

TEST(Deberta, WithoutPositionsIsPlainAttentionAtItsScale) {
  const AttentionCase c{.heads = 2, .kv_heads = 2, .m = 70, .n = 70, .d = 16, .e = 16};
  testing::SitedAttention sited("deberta:span=20", c);
  for (Parameter& p : sited.parameters().all()) std::ranges::fill(p.value, 0.0F);
  AttentionProblem p(c);
  p.run(sited, false);
  FullReference<double> reference = p.reference();
  for (double& x : reference.q) x /= std::sqrt(3.0);
  EXPECT_LT(testing::relative_error({p.y.begin(), p.y.end()}, reference.forward()), 2e-6);
}

TEST(Deberta, MeetsTheCommonChecks) {
  for (const char* options : {"deberta:span=33", "deberta:span=100,buckets=16,norm=1"}) {
    testing::check_attention(options);
  }
}

TEST(Deberta, RefusesNonsense) {
  EXPECT_THROW(DebertaAttention::can({.span = 0}), Error);
  EXPECT_THROW(DebertaAttention::can({.buckets = 7}), Error);
  // A layer's projections of queries and keys, where they are to serve positions too.
  const AttentionLayout layout{.d_model = 4, .d_head = 4};
  const Projections none(Streams::qkv(layout), layout, /*bias=*/true);
  Parameters parameters;
  const DebertaAttention shared({.share = true}, {layout, parameters, none});
  EXPECT_THROW(shared.check({.m = 3, .n = 3, .d = 4, .e = 4}), Error);
}

}  // namespace deberta_test
}  // namespace longspan
