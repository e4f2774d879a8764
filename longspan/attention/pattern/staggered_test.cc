#include "longspan/attention/pattern/staggered.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "longspan/base/error.h"
#include "longspan/testing/check_attention.h"
#include "longspan/testing/check_pattern.h"

namespace longspan {
namespace staggered_test {

using testing::AttentionCase;
using testing::AttentionProblem;

void check(const StaggeredConfig& config, std::size_t layer, const AttentionCase& c) {
  SCOPED_TRACE(fmt::format("block {} globals {} layer {}", config.block, config.globals, layer));
  const StaggeredAttention attention(config, layer);
  const AttentionProblem problem(c);  // of which the shape is a view
  const AttentionShape shape = problem.shape();
  const std::size_t half = config.stagger && layer % 2 == 1 ? config.block / 2 : 0;
  testing::check_pattern(
      attention, c, [&](std::size_t b, std::size_t h, std::size_t i, std::size_t j) {
        const std::size_t length =
            c.key_lengths.empty() ? c.n : static_cast<std::size_t>(c.key_lengths[b]);
        bool seen = i < length && j < length;
        if (seen && i >= config.globals && j >= config.globals) {
          const std::size_t first = i - config.globals + half;
          const std::size_t second = j - config.globals + half;
          seen = first / config.block == second / config.block;
        }
        if (b == 0) {
          EXPECT_EQ(!attention.reason(shape, h, i, j).empty(), seen);
        }
        return seen;
      });
}

TEST(Staggered, IsExactOverItsBlocks) {
  const std::vector<AttentionCase> cases = {
      {.m = 1, .n = 1, .d = 1, .e = 1},
      {.heads = 2, .kv_heads = 2, .m = 131, .n = 131, .d = 16, .e = 32, .columns = true},
      {.batch = 4,
       .heads = 4,
       .kv_heads = 2,
       .m = 150,
       .n = 150,
       .d = 16,
       .e = 19,
       .key_lengths = {150, 0, 71, 3},
       .dropout = 0.3F},
      {.m = 600, .n = 600, .d = 8, .e = 16},
  };
  for (const AttentionCase& c : cases) {
    for (const std::size_t layer : {0U, 1U, 2U}) {
      check({.block = 8}, layer, c);
      check({.block = 1, .globals = 2}, layer, c);
      check({.block = 7, .globals = 4}, layer, c);
      check({.block = 100, .globals = 70}, layer, c);
      check({.block = 64, .globals = 1, .stagger = false}, layer, c);
      check({.block = 1000, .globals = 5}, layer, c);
    }
  }
}

TEST(Staggered, MeetsTheCommonChecks) { testing::check_attention("staggered:block=20,globals=3"); }

TEST(Staggered, RefusesEmptyBlocks) { EXPECT_THROW(StaggeredAttention::can({.block = 0}), Error); }

}  // namespace staggered_test
}  // namespace longspan
