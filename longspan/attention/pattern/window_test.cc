#include "longspan/attention/pattern/window.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "longspan/attention/exact/flash.h"
#include "longspan/attention/pattern/window_pattern.h"
#include "longspan/attention/pattern/window_ref.h"
#include "longspan/base/error.h"
#include "longspan/testing/check_attention.h"
#include "longspan/testing/check_pattern.h"
#include "longspan/testing/for_each_target.h"

namespace longspan {
namespace window_test {

using testing::AttentionCase;
using testing::AttentionProblem;

void check(const WindowConfig& config, const AttentionCase& c) {
  SCOPED_TRACE(fmt::format("window {} dilation {}", config.window, config.dilation));
  const AttentionProblem problem(c);
  const AttentionShape shape = problem.shape();
  const WindowReference reference{config, shape};
  const WindowAttention attention(config);
  testing::check_pattern(attention, c,
                         [&](std::size_t b, std::size_t h, std::size_t i, std::size_t j) {
                           const bool sees = reference.sees(b, i, j);
                           if (b == 0) {
                             EXPECT_EQ(!attention.reason(shape, h, i, j).empty(), sees);
                           }
                           return sees;
                         });
}

std::vector<AttentionCase> cases() {
  std::vector<AttentionCase> all = {
      {.m = 1, .n = 1, .d = 1, .e = 1},
      {.m = 67, .n = 67, .d = 17, .e = 5},
      {.heads = 2, .kv_heads = 2, .m = 131, .n = 131, .d = 16, .e = 32, .columns = true},
      {.batch = 3,
       .heads = 4,
       .kv_heads = 2,
       .m = 150,
       .n = 150,
       .d = 16,
       .e = 19,
       .key_lengths = {150, 0, 71},
       .dropout = 0.3F},
      {.m = 600, .n = 600, .d = 8, .e = 16},
      // Key heads in several rounds, for up to five threads.
      {.batch = 3,
       .heads = 4,
       .kv_heads = 2,
       .m = 260,
       .n = 260,
       .d = 8,
       .e = 6,
       .key_lengths = {260, 0, 131}},
  };
  for (std::size_t i = all.size(); i-- > 0;) {
    all.push_back(all[i]);
    all.back().causal = true;
  }
  return all;
}

TEST(Window, IsExactOverItsKeys) {
  for (const AttentionCase& c : cases()) {
    for (const std::size_t window : {0U, 1U, 7U, 64U, 130U}) {
      for (const std::size_t dilation : {1U, 3U}) {
        check({.window = window, .dilation = dilation}, c);
      }
    }
  }
}

TEST(Window, LooksBackOnly) {
  check({.window = 20, .two_sided = false}, {.m = 90, .n = 90, .d = 16, .e = 16});
  check({.window = 20, .dilation = 2, .two_sided = false}, {.m = 91, .n = 91, .d = 16, .e = 16});
}

TEST(Window, AgreesOnEveryInstructionSet) {
  testing::for_each_target([&] {
    check({.window = 70}, {.batch = 2,
                           .heads = 2,
                           .kv_heads = 1,
                           .m = 131,
                           .n = 131,
                           .d = 19,
                           .e = 33,
                           .causal = true,
                           .key_lengths = {131, 65},
                           .dropout = 0.2F});
    check({.window = 50, .dilation = 2}, {.m = 140, .n = 140, .d = 64, .e = 64});
  });
}

TEST(Window, EqualsFullWhenItCoversTheSequence) {
  for (const bool causal : {false, true}) {
    const AttentionCase c{.batch = 2,
                          .heads = 2,
                          .kv_heads = 2,
                          .m = 130,
                          .n = 130,
                          .d = 32,
                          .e = 32,
                          .causal = causal};
    AttentionProblem window(c);
    AttentionProblem full(c);
    window.run(WindowAttention({.window = 260}));
    full.run(FlashAttention());
    auto wide = [](const std::vector<float>& x) { return std::vector<double>(x.begin(), x.end()); };
    EXPECT_LT(testing::relative_error(wide(window.y), wide(full.y)), 1e-6);
    EXPECT_LT(testing::relative_error(wide(window.dq), wide(full.dq)), 2e-6);
    EXPECT_LT(testing::relative_error(wide(window.dk), wide(full.dk)), 2e-6);
    EXPECT_LT(testing::relative_error(wide(window.dv), wide(full.dv)), 2e-6);
  }
}

TEST(Window, MeetsTheCommonChecks) {
  for (const char* options : {"window", "window:window=30", "window:window=10,dilation=3"}) {
    testing::check_attention(options);
  }
}

TEST(Window, DecodesWhatItPredictsAtOnce) {
  for (const std::size_t dilation : {1U, 3U}) {
    testing::check_decoding(WindowAttention({.window = 20, .dilation = dilation}), 90);
  }
}

TEST(Window, CostsWhatItsKeysCost) {
  const AttentionShape s{.heads = 8, .kv_heads = 8, .m = 8192, .n = 8192, .d = 64, .e = 64};
  AttentionShape twice = s;
  twice.m = twice.n = 2 * s.n;
  const WindowAttention attention({.window = 256});
  const std::uint64_t edge = 8ULL * 128 * 128 * 129;  // keys that the two ends lack
  EXPECT_EQ(attention.cost(s).forward.maccs, 8ULL * 8192 * 257 * 128 - edge);
  EXPECT_EQ(attention.cost(twice).forward.maccs, 8ULL * 16384 * 257 * 128 - edge);
}

TEST(Window, RefusesNonsense) {
  EXPECT_THROW(WindowAttention::can({.dilation = 0}), Error);
  EXPECT_THROW(WindowAttention().check({.m = 3, .n = 5, .d = 4, .e = 4}), Error);
}

// Every query is in one tile, one of its phase, whatever the distance of neighbours and of the first
// query from the first key.
TEST(WindowPattern, TilesHaveEveryQueryOnce) {
  for (const std::size_t m : {1U, 5U, 64U, 65U, 200U}) {
    for (const std::size_t offset : {0U, 1U, 7U, 130U}) {
      for (const std::size_t dilation : {1U, 2U, 3U, 64U, 131U, 10'000'000U}) {
        SCOPED_TRACE(fmt::format("{} queries from {} on, dilation {}", m, offset, dilation));
        const AttentionShape shape{.m = m, .n = m + offset, .causal = true};
        const WindowPattern pattern(shape, 2, 0, dilation);
        std::array<KeyRange, 1> room{};
        std::vector<int> seen(m, 0);
        std::size_t before = 0;
        for (std::size_t t = 0; t < pattern.tiles(0, 0); ++t) {
          const PatternTile at = pattern.tile(0, 0, t, room);
          EXPECT_GE(at.phase, before);
          before = at.phase;
          // The first query of the phase, then every dilation-th.
          const std::size_t first = (at.phase + dilation - offset % dilation) % dilation;
          for (std::size_t lane = 0; lane < at.tile.lanes; ++lane) {
            const std::size_t query = first + (at.tile.first + lane) * dilation;
            ASSERT_LT(query, m);
            ++seen[query];
          }
        }
        EXPECT_TRUE(std::ranges::all_of(seen, [](int times) { return times == 1; }));
      }
    }
  }
}

}  // namespace window_test
}  // namespace longspan
