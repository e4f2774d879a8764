#include "longspan/attention/pattern/bigbird.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "longspan/attention/exact/flash.h"
#include "longspan/attention/pattern/bigbird_ref.h"
#include "longspan/base/error.h"
#include "longspan/testing/check_attention.h"
#include "longspan/testing/check_pattern.h"
#include "longspan/testing/for_each_target.h"

namespace longspan {
namespace bigbird_test {

using testing::AttentionCase;
using testing::AttentionProblem;

void check(const BigBirdConfig& config, const AttentionCase& c) {
  SCOPED_TRACE(fmt::format("block {} window {} random {} etc {}", config.block, config.window,
                           config.random, config.etc));
  testing::Alone<BigBirdAttention> alone(config);
  const BigBirdAttention& attention = *alone;
  const AttentionProblem problem(c);
  const BigBirdReference reference{attention, problem.shape()};
  testing::check_pattern(attention, c,
                         [&](std::size_t b, std::size_t h, std::size_t i, std::size_t j) {
                           const bool sees = reference.sees(b, h, i, j);
                           if (b == 0) {
                             EXPECT_EQ(!attention.reason(reference.shape, h, i, j).empty(), sees);
                           }
                           return sees;
                         });
}

std::vector<BigBirdConfig> configs() {
  return {{.block = 7, .random = 2, .seed = 3},
          {.block = 16, .window = 5, .random = 1},
          {.block = 64, .window = 1, .random = 2, .seed = 9},
          {.block = 70, .window = 1, .random = 0},
          {.block = 8, .random = 1, .padded = true},
          {.block = 9, .etc = 5},
          {.block = 16, .window = 1, .etc = 70}};
}

TEST(BigBird, IsExactOverItsKeys) {
  const std::vector<AttentionCase> cases = {
      {.m = 1, .n = 1, .d = 1, .e = 1},
      {.m = 67, .n = 67, .d = 17, .e = 5},
      {.heads = 2, .kv_heads = 2, .m = 300, .n = 300, .d = 16, .e = 32, .columns = true},
      {.batch = 4,
       .heads = 2,
       .kv_heads = 1,
       .m = 210,
       .n = 210,
       .d = 16,
       .e = 19,
       .key_lengths = {210, 0, 71, 1},
       .dropout = 0.3F},
      {.m = 700, .n = 700, .d = 8, .e = 8},
  };
  for (AttentionCase c : cases) {
    for (const bool causal : {false, true}) {
      c.causal = causal;
      for (const BigBirdConfig& config : configs()) check(config, c);
    }
  }
}

TEST(BigBird, AgreesOnEveryInstructionSet) {
  testing::for_each_target([] {
    for (const BigBirdConfig& config : configs()) {
      check(config, {.heads = 2, .kv_heads = 2, .m = 131, .n = 131, .d = 17, .e = 33});
    }
  });
}

TEST(BigBird, EqualsFullWhenItsBlocksCoverEverything) {
  for (const bool causal : {false, true}) {
    const AttentionCase c{
        .heads = 2, .kv_heads = 2, .m = 130, .n = 130, .d = 32, .e = 32, .causal = causal};
    AttentionProblem full(c);
    full.run(FlashAttention());
    for (const BigBirdConfig& config :
         {BigBirdConfig{.block = 13, .window = 3, .random = 10}, BigBirdConfig{.block = 64},
          BigBirdConfig{.block = 10, .window = 27, .random = 0}}) {
      AttentionProblem p(c);
      p.run(*testing::Alone<BigBirdAttention>(config));
      auto wide = [](const std::vector<float>& x) {
        return std::vector<double>(x.begin(), x.end());
      };
      EXPECT_EQ(p.forward_work.maccs, full.forward_work.maccs);
      EXPECT_LT(testing::relative_error(wide(p.y), wide(full.y)), 1e-6);
      EXPECT_LT(testing::relative_error(wide(p.dq), wide(full.dq)), 2e-6);
      EXPECT_LT(testing::relative_error(wide(p.dk), wide(full.dk)), 2e-6);
      EXPECT_LT(testing::relative_error(wide(p.dv), wide(full.dv)), 2e-6);
    }
  }
}

TEST(BigBird, DrawsOutsideWindowAndGlobalsWithoutRepetition) {
  testing::Alone<BigBirdAttention> alone(BigBirdConfig{.random = 3, .seed = 5});
  const BigBirdAttention& attention = *alone;
  std::array<std::size_t, 64> drawn{};
  std::vector<std::size_t> uses(40);
  for (std::size_t h = 0; h < 50; ++h) {
    for (std::size_t t = 1; t < 39; ++t) {
      const std::size_t count = attention.draw(h, t, 40, false, drawn);
      ASSERT_EQ(count, 3U);
      const std::set<std::size_t> unique(drawn.begin(), drawn.begin() + 3);
      EXPECT_EQ(unique.size(), 3U);
      for (const std::size_t x : unique) {
        EXPECT_TRUE(x > 0 && x < 39) << x;
        EXPECT_TRUE(x + 1 < t || x > t + 1) << x << " for " << t;
        ++uses[x];
      }
      const std::size_t earlier = attention.draw(h, t, 40, true, drawn);
      EXPECT_EQ(earlier, std::min<std::size_t>(3, t > 2 ? t - 2 : 0));
      for (std::size_t i = 0; i < earlier; ++i) EXPECT_TRUE(drawn[i] > 0 && drawn[i] + 1 < t);
    }
  }
  // 5700 draws among about 35: each block is drawn 160 times, give or take five deviations.
  for (std::size_t x = 2; x < 38; ++x) EXPECT_NEAR(static_cast<double>(uses[x]), 157.0, 65.0) << x;
}

TEST(BigBird, HeadsLayersAndSeedsDrawTheirOwn) {
  std::set<std::vector<std::size_t>> seen;
  for (const std::uint64_t seed : {1U, 2U}) {
    for (const std::size_t layer : {0U, 1U}) {
      testing::Alone<BigBirdAttention> attention(BigBirdConfig{.random = 8, .seed = seed},
                                                 {.layer = layer, .d_model = 4, .d_head = 4});
      for (const std::size_t head : {0U, 1U}) {
        std::vector<std::size_t> drawn(8);
        attention->draw(head, 50, 100, false, drawn);
        seen.insert(drawn);
      }
    }
  }
  EXPECT_EQ(seen.size(), 8U);
}

TEST(BigBird, PaddingChangesNothing) {
  testing::Alone<BigBirdAttention> alone(BigBirdConfig{.block = 8, .random = 2});
  const BigBirdAttention& attention = *alone;
  AttentionProblem cut({.heads = 2, .kv_heads = 2, .m = 101, .n = 101, .d = 16, .e = 16});
  AttentionProblem padded(
      {.heads = 2, .kv_heads = 2, .m = 150, .n = 150, .d = 16, .e = 16, .key_lengths = {101}});
  for (auto [from, to] : {std::pair{&cut.q, &padded.q}, {&cut.k, &padded.k}, {&cut.v, &padded.v}}) {
    for (std::size_t h = 0; h < 2; ++h) {
      std::copy_n(from->begin() + static_cast<std::ptrdiff_t>(h * 101 * 16), 101 * 16,
                  to->begin() + static_cast<std::ptrdiff_t>(h * 150 * 16));
    }
  }
  cut.run(attention, false);
  padded.run(attention, false);
  for (std::size_t i = 0; i < cut.y.size(); ++i) {
    const std::size_t h = i / (101 * 16);
    EXPECT_EQ(cut.y[i], padded.y[h * 150 * 16 + i % (101 * 16)]);
  }
}

TEST(BigBird, DecodesWhatItPredictsAtOnce) {
  for (const BigBirdConfig& config : configs()) {
    testing::check_decoding(*testing::Alone<BigBirdAttention>(config), 150);
  }
}

TEST(BigBird, MeetsTheCommonChecks) {
  for (const char* options : {"bigbird", "bigbird:block=16,random=1", "bigbird:block=8,etc=3"}) {
    testing::check_attention(options);
  }
}

TEST(BigBird, RefusesNonsense) {
  EXPECT_THROW(BigBirdAttention::can({.block = 0}), Error);
  EXPECT_THROW(BigBirdAttention::can({.window = 2}), Error);
  EXPECT_THROW(BigBirdAttention::can({.random = 65}), Error);
  testing::Alone<BigBirdAttention> attention(BigBirdConfig{.block = 8, .random = 1});
  attention->use({.blocks = {3, 3}, .rows = 2});
  EXPECT_THROW(attention->check({.m = 64, .n = 64, .d = 4, .e = 4}), Error);
}

}  // namespace bigbird_test
}  // namespace longspan
