// The options of flash: each against the definition, and its limits.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <limits>

#include "longspan/attention/exact/flash_ref.h"
#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "longspan/testing/check_attention.h"
#include "longspan/testing/check_reference.h"
#include "longspan/testing/failing.h"
#include "longspan/testing/for_each_target.h"

namespace longspan {
namespace flash_options_test {

using testing::AttentionCase;
using testing::AttentionProblem;
using testing::SitedAttention;

constexpr std::string_view kOptions[] = {
    "scale=0.7",
    "cap=1.5",
    "sinks=true",
    "before=5",
    "before=70",
    "before=3,after=2",
    "after=0",
    "distances=alibi",
    "distances=alibi,slope=0.3,before=9",
    "distances=buckets,buckets=8,span=20",
    "distances=buckets,buckets=6,span=9,two_sided=false",
    "scale=0.4,cap=2,sinks=true,before=7,distances=buckets,buckets=12,span=30",
};

FlashConfig config_of(std::string_view options) {
  FlashConfig config;
  parse_options("flash", options, config);
  return config;
}

void check(std::string_view options, const AttentionCase& c) {
  testing::check_reference(fmt::format("flash:{}", options), c,
                           [&](const auto& t) { return FlashReference(config_of(options), t)(); });
}

TEST(FlashOptions, AgreeWithTheirDefinition) {
  for (const std::string_view options : kOptions) {
    for (const bool causal : {false, true}) {
      for (const std::size_t n : {1U, 5U, 11U}) {
        check(options, {.batch = 2,
                        .heads = 2,
                        .kv_heads = 1,
                        .m = n,
                        .n = n,
                        .d = 3,
                        .e = 2,
                        .causal = causal,
                        .key_lengths = {static_cast<std::int32_t>(n), 4 % static_cast<int>(n + 1)},
                        .columns = n == 5});
      }
    }
  }
}

// Over several tiles, on every instruction set; the last queries alone as when decoding.
TEST(FlashOptions, AgreeAcrossTiles) {
  testing::for_each_target([&] {
    for (const std::string_view options : kOptions) {
      check(options, {.m = 70, .n = 70, .d = 1, .e = 1});
      check(options, {.m = 9, .n = 131, .d = 1, .e = 1, .causal = true, .dropout = 0.3F});
      check(options, {.m = 2, .n = 131, .d = 1, .e = 1, .causal = true});
    }
  });
}

TEST(FlashOptions, KeepThePromisesOfEveryMechanism) {
  for (const std::string_view options :
       {"cap=1.5,sinks=true", "before=70,after=1", "distances=buckets,buckets=8,span=20"}) {
    testing::check_attention(fmt::format("flash:{}", options));
  }
}

// A few queries of many keys, which are cut into parts: a sink counts once.
TEST(FlashOptions, FewQueriesOfManyKeys) {
  for (const std::string_view options :
       {"sinks=true", "cap=2", "distances=alibi", "before=700", "before=70"}) {
    const AttentionCase c{.m = 2, .n = 1100, .d = 4, .e = 3, .causal = true};
    SitedAttention sited(fmt::format("flash:{}", options), c);
    AttentionProblem p(c);
    p.run(sited, false);
    const auto want = FlashReference(config_of(options), p.tensors(sited.parameters()))();
    EXPECT_LT(testing::relative_error(AttentionProblem::dense(p.heads(p.y, 1, 2, 3)), want), 2e-6)
        << options;
    testing::check_cost(fmt::format("flash:{}", options), c);
  }
}

// Same bits: what an option does where it has nothing to do.
TEST(FlashOptions, LimitsAreTheFlashWithoutThem) {
  for (const std::size_t m : {3U, 150U}) {
    for (const bool causal : {false, true}) {
      const AttentionCase c{
          .heads = 2, .kv_heads = 2, .m = m, .n = m, .d = 16, .e = 16, .causal = causal};
      AttentionProblem plain(c);
      plain.run(FlashAttention());
      for (const std::string_view options :
           {"scale=0.25", "before=150,after=150", "before=149", "distances=alibi,slope=0"}) {
        if (options == std::string_view("before=149") && !causal) continue;
        AttentionProblem p(c);
        p.run(FlashAttention(config_of(options)));
        EXPECT_EQ(p.y, plain.y) << options;
        EXPECT_EQ(p.dq, plain.dq) << options;
        EXPECT_EQ(p.dk, plain.dk) << options;
        EXPECT_EQ(p.dv, plain.dv) << options;
      }
      AttentionProblem high(c);
      high.run(FlashAttention({.cap = 1e4}));
      EXPECT_LT(testing::relative_error(testing::widen(high.y), testing::widen(plain.y)), 1e-5);
      SitedAttention sited("flash:sinks=true", c);
      for (float& sink : sited.parameters().find("attention.sinks")->value) {
        sink = -std::numeric_limits<float>::infinity();
      }
      AttentionProblem none(c);
      none.run(sited);
      EXPECT_EQ(none.y, plain.y);
      EXPECT_EQ(none.dq, plain.dq);
    }
  }
}

// Same bits whether or not the keys before a window are there, cut off where tiles begin.
TEST(FlashOptions, KeysBeforeTheWindowMayBeForgotten) {
  constexpr std::size_t kAll = 1000;
  constexpr std::size_t kKept = kAll - 896;  // 896 = 14·64
  for (const std::size_t m : {1U, 5U, 30U}) {
    AttentionProblem all({.m = m, .n = kAll, .d = 8, .e = 8, .causal = true});
    AttentionProblem last({.m = m, .n = kKept, .d = 8, .e = 8, .causal = true});
    last.q = all.q;
    std::copy(all.k.end() - 8 * kKept, all.k.end(), last.k.begin());
    std::copy(all.v.end() - 8 * kKept, all.v.end(), last.v.begin());
    const FlashAttention window({.before = 70});
    EXPECT_EQ(window.reads_back(), 70U);
    all.run(window, false);
    last.run(window, false);
    EXPECT_EQ(last.y, all.y) << m;
  }
}

// A sink of 0 is one more key of score 0 and value 0.
TEST(FlashOptions, SinkIsAKeyWithoutAValue) {
  const AttentionCase c{.m = 70, .n = 70, .d = 4, .e = 4};
  SitedAttention sited("flash:sinks=true", c);
  sited.parameters().find("attention.sinks")->value[0] = 0.0F;
  AttentionProblem p(c);
  p.run(sited, false);
  AttentionProblem more({.m = 70, .n = 71, .d = 4, .e = 4});
  more.q = p.q;
  std::ranges::copy(p.k, more.k.begin());
  std::ranges::copy(p.v, more.v.begin());
  std::fill_n(more.k.end() - 4, 4, 0.0F);
  std::fill_n(more.v.end() - 4, 4, 0.0F);
  more.run(FlashAttention(), false);
  EXPECT_LT(testing::relative_error(testing::widen(p.y), testing::widen(more.y)), 1e-6);
}

// Those of T5: 32 buckets, 16 for each side, eight of them a distance each.
TEST(FlashOptions, BucketsAreThoseOfT5) {
  const Buckets two;
  const std::pair<std::ptrdiff_t, std::size_t> both[] = {
      {0, 0},       {1, 1},   {7, 7},   {8, 8},    {11, 8},   {12, 9},   {15, 9},
      {16, 10},     {31, 11}, {32, 12}, {63, 13},  {64, 14},  {127, 15}, {128, 15},
      {100000, 15}, {-1, 17}, {-8, 24}, {-64, 30}, {-500, 31}};
  for (const auto& [r, bucket] : both) EXPECT_EQ(bucket_of(two, r), bucket) << r;
  const Buckets one{.two_sided = false};
  EXPECT_EQ(bucket_of(one, -3), 0U);
  EXPECT_EQ(bucket_of(one, 15), 15U);
  EXPECT_EQ(bucket_of(one, 16), 16U);
  EXPECT_EQ(bucket_of(one, 32), 21U);
  EXPECT_EQ(bucket_of(one, 1000), 31U);
}

TEST(FlashOptions, SlopesAreThoseOfAlibi) {
  EXPECT_DOUBLE_EQ(alibi_slope(0, 8), 0.5);
  EXPECT_DOUBLE_EQ(alibi_slope(7, 8), 1.0 / 256);
  EXPECT_DOUBLE_EQ(alibi_slope(8, 12), std::exp2(-0.5));
  EXPECT_DOUBLE_EQ(alibi_slope(11, 12), std::exp2(-3.5));
}

TEST(FlashOptions, RefuseWhatMakesNoSense) {
  const auto error_of = [](std::string_view options) {
    return testing::message_of([&] { FlashAttention::can(config_of(options)); });
  };
  EXPECT_NE(error_of("distances=buckets,buckets=32,span=8").find("need a span"), std::string::npos);
  EXPECT_NE(testing::message_of([] { FlashAttention({.sinks = true}); }).find("need a site"),
            std::string::npos);
  AttentionProblem across({.m = 3, .n = 5, .d = 2, .e = 2});
  EXPECT_THROW(across.run(FlashAttention({.before = 2})), Error);
}

}  // namespace flash_options_test
}  // namespace longspan
