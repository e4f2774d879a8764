#include "longspan/attention/pattern/local.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "longspan/base/error.h"
#include "longspan/testing/check_pattern.h"

namespace longspan {
namespace local_test {

using testing::AttentionCase;
using testing::AttentionProblem;

void check(const LocalConfig& config, const AttentionCase& c) {
  SCOPED_TRACE(
      fmt::format("block {} before {} after {}", config.block, config.before, config.after));
  const auto sees = [&](std::size_t b, std::size_t /*h*/, std::size_t i, std::size_t j) {
    const std::size_t length =
        c.key_lengths.empty() ? c.n : static_cast<std::size_t>(c.key_lengths[b]);
    const std::size_t position = i + c.n - c.m;
    if (position >= length || j >= length || (c.causal && j > position)) return false;
    const std::size_t mine = position / config.block;
    const std::size_t theirs = j / config.block;
    if (!config.wrap || c.causal) {
      return theirs <= mine + config.after && theirs + config.before >= mine;
    }
    const std::size_t blocks = (length + config.block - 1) / config.block;
    const std::size_t ahead = (theirs + blocks - mine) % blocks;
    return ahead <= config.after || blocks - ahead <= config.before;
  };
  const LocalAttention attention(config);
  const AttentionProblem problem(c);
  const AttentionShape shape = problem.shape();
  testing::check_pattern(attention, c,
                         [&](std::size_t b, std::size_t h, std::size_t i, std::size_t j) {
                           const bool seen = sees(b, h, i, j);
                           if (b == 0) {
                             EXPECT_EQ(!attention.reason(shape, h, i, j).empty(), seen);
                           }
                           return seen;
                         });
}

TEST(Local, IsExactOverItsBlocks) {
  const std::vector<AttentionCase> cases = {
      {.m = 1, .n = 1, .d = 1, .e = 1},
      {.m = 67, .n = 67, .d = 17, .e = 5, .causal = true},
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
      {.m = 23, .n = 150, .d = 8, .e = 8, .causal = true},
      {.m = 600, .n = 600, .d = 8, .e = 16, .causal = true},
  };
  for (const AttentionCase& c : cases) {
    check({.block = 1}, c);
    check({.block = 8, .before = 1}, c);
    check({.block = 100, .before = 1, .after = 1}, c);
    check({.block = 64, .after = 2}, c);
    check({.block = 1000}, c);
    check({.block = 8, .before = 1, .after = 1, .wrap = true}, c);
    check({.block = 16, .before = 2, .wrap = true}, c);
    check({.block = 20, .before = 3, .after = 5, .wrap = true}, c);
  }
}

TEST(Local, RefusesEmptyBlocks) {
  EXPECT_THROW(LocalAttention::can({.block = 0}), Error);
  EXPECT_THROW(LocalAttention::can({.before = SIZE_MAX}), Error);
}

}  // namespace local_test
}  // namespace longspan
