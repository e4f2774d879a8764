#include "longspan/attention/lowrank/linformer.h"

#include <gtest/gtest.h>

#include "longspan/attention/lowrank/linformer_ref.h"
#include "longspan/base/error.h"
#include "longspan/testing/check_attention.h"
#include "longspan/testing/check_reference.h"

namespace longspan {
namespace linformer_test {

using testing::AttentionCase;
using testing::AttentionProblem;
using testing::SitedAttention;

struct Variant {
  std::string_view options;
  LinformerConfig config;
};

const std::vector<Variant>& variants() {
  static const std::vector<Variant> all = {
      {"linformer:k=5", {.k = 5}},
      {"linformer:k=3,sharing=none", {.k = 3, .sharing = "none"}},
      {"linformer:k=4,sharing=key-value", {.k = 4, .sharing = "key-value"}},
      {"linformer:k=4,sharing=layerwise,length=30", {.k = 4, .sharing = "layerwise", .length = 30}},
      {"linformer:k=3,projection=pool", {.k = 3, .projection = "pool"}},
      {"linformer:k=3,projection=convolution", {.k = 3, .projection = "convolution"}},
      {"linformer:k=3,projection=convolution,sharing=none",
       {.k = 3, .sharing = "none", .projection = "convolution"}},
  };
  return all;
}

TEST(Linformer, AgreesWithItsDefinition) {
  const std::vector<AttentionCase> cases = {
      {.m = 1, .n = 1, .d = 1, .e = 1},
      {.heads = 2, .kv_heads = 2, .m = 11, .n = 11, .d = 3, .e = 2, .columns = true},
      {.batch = 2,
       .heads = 4,
       .kv_heads = 2,
       .m = 5,
       .n = 13,
       .d = 2,
       .e = 3,
       .key_lengths = {13, 7}},
  };
  for (const AttentionCase& c : cases) {
    for (const Variant& v : variants()) {
      const std::size_t longest = v.config.length > 0 ? v.config.length : std::max(c.m, c.n);
      testing::check_reference(
          v.options, c, [&](const auto& t) { return linformer_reference(v.config, longest, t); });
    }
  }
}

TEST(Linformer, EveryVariantPassesTheChecksOfAllMechanisms) {
  for (const AttentionCase& c : testing::cases_for(LinformerAttention::can({}))) {
    if (c.n > 66 || c.m > 66) continue;
    for (const Variant& v : variants()) {
      if (v.config.length > 0) continue;
      testing::check_cost(v.options, c);
      testing::check_padding(v.options, c);
      testing::check_batch(v.options, c);
    }
  }
}

// k = n and E = F = I, or a permutation, is exact attention.
TEST(Linformer, IsExactWithAPermutation) {
  const AttentionCase c{.heads = 2, .kv_heads = 2, .m = 37, .n = 37, .d = 8, .e = 8};
  AttentionProblem exact(c);
  exact.run(FlashAttention());
  for (const std::size_t step : {1U, 5U}) {
    SitedAttention sited("linformer:k=37", c);
    for (Parameter& p : sited.parameters().all()) {
      std::ranges::fill(p.value, 0.0F);
      for (std::size_t i = 0; i < 37; ++i) p.value[i * 37 + i * step % 37] = 1.0F;
    }
    AttentionProblem p(c);
    p.run(sited);
    for (std::size_t i = 0; i < p.y.size(); ++i) EXPECT_NEAR(p.y[i], exact.y[i], 2e-6);
    for (std::size_t i = 0; i < p.dk.size(); ++i) {
      EXPECT_NEAR(p.dq[i], exact.dq[i], 5e-6);
      EXPECT_NEAR(p.dk[i], exact.dk[i], 5e-6);
      EXPECT_NEAR(p.dv[i], exact.dv[i], 5e-6);
    }
  }
  // One token per slot is the identity, too.
  for (const std::string_view options : {"linformer:k=37,projection=pool"}) {
    SitedAttention sited(options, c);
    AttentionProblem p(c);
    p.run(sited);
    EXPECT_EQ(p.y, exact.y);
  }
}

// A shorter sequence uses the first columns: as if the rest had been padding.
TEST(Linformer, ShortSequencesUseTheFirstColumns) {
  const AttentionCase padded{.m = 20, .n = 20, .d = 4, .e = 4, .key_lengths = {12}};
  const AttentionCase cut{.m = 20, .n = 12, .d = 4, .e = 4};
  for (const Variant& v : variants()) {
    SitedAttention sited(v.options, padded);
    AttentionProblem a(padded);
    a.run(*sited, false);
    AttentionProblem b(cut);
    b.q = a.q;
    b.run(*sited, false);
    EXPECT_EQ(a.y, b.y) << v.options;
  }
}

TEST(Linformer, SharesTables) {
  auto parameters_of = [](const LinformerConfig& config) {
    Parameters parameters;
    for (const char* name : {"encoder.0", "encoder.1"}) {
      const AttentionLayout layout{.name = name,
                                   .stack = "encoder",
                                   .heads = 4,
                                   .kv_heads = 4,
                                   .d_head = 8,
                                   .max_length = 50};
      const Projections none(Streams::qkv(layout), layout, /*bias=*/false);
      LinformerAttention(config, {layout, parameters, none});
    }
    return parameters.count();
  };
  const std::size_t kn = 10 * 50;
  EXPECT_EQ(parameters_of({.k = 10, .sharing = "none"}), 2 * kn * 4 * 2);
  EXPECT_EQ(parameters_of({.k = 10, .sharing = "headwise"}), 2 * kn * 2);
  EXPECT_EQ(parameters_of({.k = 10, .sharing = "key-value"}), kn * 2);
  EXPECT_EQ(parameters_of({.k = 10, .sharing = "layerwise"}), kn);
  EXPECT_EQ(parameters_of({.k = 10, .projection = "pool"}), 0U);
  EXPECT_EQ(parameters_of({.k = 10, .projection = "convolution"}), 2U * 5 * 2);
}

// 4·n·k·d: two products along the sequence, two with the slots.
TEST(Linformer, CountsAsItsFormula) {
  const std::uint64_t n = 512;
  const AttentionCost cost =
      testing::Alone<LinformerAttention>(LinformerConfig{.k = 64}, {.d_head = 32, .max_length = n})
          ->cost({.m = n, .n = n, .d = 32, .e = 32});
  EXPECT_EQ(cost.forward.maccs, 4 * n * 64 * 32);
  EXPECT_EQ(cost.update.maccs, 2 * n * 64 * 32);
}

// The order with fewer products: q·Kᵀ first for short sequences.
TEST(Linformer, ChoosesTheCheaperOrder) {
  testing::Alone<LinformerAttention> linformer(LinformerConfig{.k = 256},
                                               {.d_head = 64, .max_length = 200});
  for (const std::uint64_t n : {1U, 64U, 102U, 103U, 200U}) {
    const AttentionCost cost = linformer->cost({.m = n, .n = n, .d = 64, .e = 64});
    EXPECT_EQ(cost.forward.maccs, std::min(4 * n * 256 * 64, 2 * n * n * (64 + 256))) << n;
  }
}

// With d = 8 and these k sequences of up to 4 tokens are short and the others long.
TEST(Linformer, BothOrdersAgreeWithTheDefinition) {
  for (const std::size_t n : {2U, 4U, 7U, 12U}) {
    const AttentionCase c{.batch = 2,
                          .heads = 4,
                          .kv_heads = 2,
                          .m = n,
                          .n = n,
                          .d = 8,
                          .e = 8,
                          .key_lengths = {static_cast<std::int32_t>(n), 1}};
    for (const Variant& v : variants()) {
      if (v.config.length > 0) continue;
      testing::check_reference(v.options, c,
                               [&](const auto& t) { return linformer_reference(v.config, n, t); });
    }
  }
}

TEST(Linformer, RefusesWhatItCannotDo) {
  EXPECT_THROW(LinformerAttention::can({.k = 0}), Error);
  EXPECT_THROW(LinformerAttention::can({.sharing = "all"}), Error);
  EXPECT_THROW(LinformerAttention::can({.projection = "random"}), Error);
  try {
    testing::Alone<LinformerAttention>(LinformerConfig{})
        ->check({.m = 4, .n = 4, .d = 2, .e = 2, .causal = true});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "[linformer] cannot be causal: every slot mixes all positions, so the past would "
                 "see the future");
  }
  EXPECT_THROW(testing::Alone<LinformerAttention>(LinformerConfig{.length = 8})
                   ->check({.m = 4, .n = 9, .d = 2, .e = 2}),
               Error);
}

}  // namespace linformer_test
}  // namespace longspan
