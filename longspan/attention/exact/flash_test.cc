#include "longspan/attention/exact/flash.h"

#include <gtest/gtest.h>

#include <limits>

#include "longspan/attention/exact/full.h"
#include "longspan/testing/allocations.h"
#include "longspan/testing/check_attention.h"
#include "longspan/testing/for_each_target.h"

namespace longspan {
namespace flash_test {

using testing::AttentionCase;
using testing::AttentionProblem;
using testing::BiasKind;

TEST(Flash, AgreesOnEveryInstructionSet) {
  const std::vector<AttentionCase> cases = {
      {.m = 67, .n = 129, .d = 17, .e = 33, .causal = true},
      {.m = 3, .n = 67, .d = 19, .e = 35, .causal = true, .bias = BiasKind::kOwn, .dropout = 0.2F},
      {.batch = 2,
       .heads = 2,
       .kv_heads = 1,
       .m = 130,
       .n = 66,
       .d = 64,
       .e = 48,
       .causal = true,
       .key_lengths = {66, 31},
       .bias = BiasKind::kPerHead,
       .visible = true,
       .dropout = 0.2F},
  };
  testing::for_each_target([&] {
    for (const AttentionCase& c : cases) {
      testing::check_exact("flash", c);
      testing::check_cost("flash", c);
    }
  });
}

// A few queries take a path of their own; both sides of the border, every mask.
TEST(Flash, ManyAndFewQueries) {
  for (const std::size_t m : {1U, 2U, 5U, 6U, 7U, 8U, 17U}) {
    for (const std::size_t n : {1U, 6U, 65U, 130U}) {
      AttentionCase c{.batch = 2, .heads = 2, .kv_heads = 1, .m = m, .n = n, .d = 24, .e = 37};
      testing::check_exact("flash", c);
      c.causal = true;
      c.key_lengths = {static_cast<std::int32_t>(n), static_cast<std::int32_t>(n / 2)};
      c.bias = BiasKind::kPerSequence;
      c.visible = true;
      c.dropout = 0.25F;
      testing::check_exact("flash", c);
      testing::check_cost("flash", c);
    }
  }
}

// As when decoding behind a long text: the keys of few heads are cut, and the parts merged.
TEST(Flash, FewQueriesOfManyKeys) {
  for (const std::size_t n : {1023U, 1024U, 1100U, 2049U}) {
    for (const std::size_t m : {1U, 5U}) {
      AttentionCase c{.batch = 2, .heads = 2, .kv_heads = 1, .m = m, .n = n, .d = 8, .e = 5};
      testing::check_exact("flash", c);
      c.causal = true;
      c.key_lengths = {static_cast<std::int32_t>(n), 70};  // most parts of the second are empty
      c.bias = BiasKind::kPerSequence;
      c.visible = true;
      testing::check_exact("flash", c);
      testing::check_cost("flash", c);
      c.key_lengths = {static_cast<std::int32_t>(n), 0};
      testing::check_exact("flash", c);
    }
  }
}

TEST(Flash, BitsOfFewQueriesDoNotDependOnThreads) {
  const AttentionCase c{.heads = 3, .kv_heads = 1, .m = 1, .n = 3000, .d = 16, .e = 16};
  AttentionProblem problem(c);
  std::optional<std::vector<float>> first;
  testing::for_each_thread_count([&] {
    problem.run(FlashAttention(), false);
    if (!first) first.emplace(problem.y.begin(), problem.y.end());
    EXPECT_TRUE(std::ranges::equal(problem.y, *first));
  });
}

TEST(Flash, DropsTheSameWeightsAsFull) {
  const AttentionCase c{
      .batch = 2, .heads = 2, .kv_heads = 2, .m = 70, .n = 131, .d = 16, .e = 16, .dropout = 0.5F};
  AttentionProblem flash(c);
  AttentionProblem full(c);
  flash.run(FlashAttention());
  full.run(FullAttention());
  auto wide = [](const std::vector<float>& x) { return std::vector<double>(x.begin(), x.end()); };
  EXPECT_LT(testing::relative_error(wide(flash.y), wide(full.y)), 2e-6);
  EXPECT_LT(testing::relative_error(wide(flash.dq), wide(full.dq)), 4e-6);
  EXPECT_LT(testing::relative_error(wide(flash.dk), wide(full.dk)), 4e-6);
  EXPECT_LT(testing::relative_error(wide(flash.dv), wide(full.dv)), 4e-6);
}

// Keys that are cut off give the same bits as keys that are masked.
TEST(Flash, PaddingIsNeverTouched) {
  const std::vector<std::int32_t> lengths = {131};
  AttentionProblem cut({.m = 70, .n = 131, .d = 16, .e = 16});
  AttentionProblem padded({.m = 70, .n = 200, .d = 16, .e = 16, .key_lengths = lengths});
  padded.q = cut.q;
  padded.dy = cut.dy;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  auto pad = [&](const std::vector<float>& from, std::vector<float>& to) {
    std::fill(to.begin(), to.end(), nan);
    std::copy(from.begin(), from.end(), to.begin());
  };
  pad(cut.k, padded.k);
  pad(cut.v, padded.v);
  cut.run(FlashAttention());
  padded.run(FlashAttention());
  EXPECT_EQ(padded.y, cut.y);
  EXPECT_EQ(padded.dq, cut.dq);
  for (std::size_t i = 0; i < padded.dk.size(); ++i) {
    EXPECT_EQ(padded.dk[i], i < cut.dk.size() ? cut.dk[i] : 0.0F);
    EXPECT_EQ(padded.dv[i], i < cut.dv.size() ? cut.dv[i] : 0.0F);
  }
}

TEST(Flash, RowsWithoutKeysAreZero) {
  AttentionProblem p({.m = 80, .n = 70, .d = 16, .e = 16, .causal = true, .visible = true});
  std::fill(p.visible.begin() + 20 * 70, p.visible.begin() + 25 * 70, 0);
  p.run(FlashAttention());
  for (std::size_t i = 0; i < 80; ++i) {
    if (i >= 10 && (i < 20 || i >= 25)) continue;  // the first ten queries come before every key
    for (std::size_t c = 0; c < 16; ++c) {
      EXPECT_EQ(p.y[i * 16 + c], 0.0F);
      EXPECT_EQ(p.dq[i * 16 + c], 0.0F);
    }
  }
}

TEST(Flash, SurvivesLargeScores) {
  for (const float scale : {30.0F, 3000.0F}) {
    AttentionProblem p({.m = 70, .n = 131, .d = 16, .e = 16, .bias = BiasKind::kOwn});
    for (float& x : p.q) x *= scale;
    for (std::size_t i = 0; i < p.bias.size(); i += 3) {
      p.bias[i] = -std::numeric_limits<float>::infinity();
    }
    p.run(FlashAttention());
    for (const auto* x : {&p.y, &p.dq, &p.dk, &p.dv, &p.dbias}) {
      for (const float value : *x) ASSERT_TRUE(std::isfinite(value)) << scale;
    }
  }
}

// What a key-value cache does: one query at a time against the keys so far.
TEST(Flash, DecodesWhatItPredictsAtOnce) {
  const AttentionCase c{
      .heads = 4, .kv_heads = 2, .m = 70, .n = 70, .d = 16, .e = 16, .causal = true};
  AttentionProblem whole(c);
  whole.run(FlashAttention(), false);
  const AttentionInputs all = whole.inputs();
  for (const std::size_t t : {0U, 1U, 63U, 64U, 69U}) {
    AttentionInputs in = all;
    in.q.data += t * 16;
    in.q.n = 1;
    in.k = all.k.first(t + 1);
    in.v = all.v.first(t + 1);
    std::vector<float> y(4 * 16);
    Arena arena(FlashAttention().cost(shape_of(in)).forward_scratch);
    FlashAttention().forward({in, Heads(y.data(), 1, 4, 1, 16), {}, arena});
    for (std::size_t i = 0; i < y.size(); ++i) {
      EXPECT_NEAR(y[i], whole.y[(i / 16 * 70 + t) * 16 + i % 16], 2e-6) << t;
    }
  }
}

TEST(Flash, MemoryIsLinear) {
  auto bytes = [](std::size_t n, std::size_t heads) {
    const AttentionCost c = FlashAttention().cost(
        {.heads = heads, .kv_heads = heads, .m = n, .n = n, .d = 64, .e = 64});
    return 4 * c.saved + std::max(c.forward_scratch, c.backward_scratch);
  };
  for (const std::size_t heads : {1U, 8U}) {
    const std::size_t grown = bytes(65536, heads) - bytes(32768, heads);
    EXPECT_EQ(bytes(131072, heads) - bytes(65536, heads), 2 * grown);
    EXPECT_LE(grown, 8 * (4 * heads * 32768 * 64));
  }
}

TEST(Flash, AllocatesNothing) {
  AttentionProblem p({.batch = 2,
                      .heads = 2,
                      .kv_heads = 2,
                      .m = 130,
                      .n = 300,
                      .d = 32,
                      .e = 32,
                      .bias = BiasKind::kOwn,
                      .dropout = 0.1F});
  p.run(FlashAttention());
  const AttentionInputs in = p.inputs();
  const AttentionCost cost = FlashAttention().cost(p.shape());
  Arena arena(std::max(cost.forward_scratch, cost.backward_scratch));
  const AttentionGradients grad{Heads(p.dq.data(), 2, 2, 130, 32),
                                Heads(p.dk.data(), 2, 2, 300, 32),
                                Heads(p.dv.data(), 2, 2, 300, 32),
                                {},
                                {}};
  const ConstHeads y(p.y.data(), 2, 2, 130, 32);
  const ConstHeads dy(p.dy.data(), 2, 2, 130, 32);
  const std::size_t before = testing::allocations();
  FlashAttention().forward({in, Heads(p.y.data(), 2, 2, 130, 32), p.saved, arena});
  FlashAttention().backward({in, y, dy, p.saved, grad, {}, arena});
  EXPECT_EQ(testing::allocations(), before);
}

}  // namespace flash_test
}  // namespace longspan
