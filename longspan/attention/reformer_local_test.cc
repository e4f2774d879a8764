#include "longspan/attention/reformer_local.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "longspan/testing/check_attention.h"
#include "longspan/testing/check_reference.h"
#include "longspan/testing/for_each_target.h"

namespace longspan {
namespace {

using testing::AttentionCase;

// From the definition, pair by pair.
template <class T>
std::vector<T> reference(const ReformerLocalConfig& config, const testing::AttentionTensors<T>& t) {
  const AttentionShape& s = t.shape;
  const auto chunks = static_cast<std::ptrdiff_t>((s.n + config.chunk - 1) / config.chunk);
  std::vector<T> y(s.batch * s.heads * s.n * s.e, T{});
  for (std::size_t at = 0; at < s.batch * s.heads * s.n; ++at) {
    const std::size_t plane = at / s.n;
    const std::size_t length = t.mask.keys(plane / s.heads, s.n);
    if (at % s.n >= length) continue;
    const auto own = static_cast<std::ptrdiff_t>(at % s.n / config.chunk);
    T sum{};
    for (std::ptrdiff_t c = own - static_cast<std::ptrdiff_t>(config.before);
         c <= own + static_cast<std::ptrdiff_t>(config.after); ++c) {
      const std::ptrdiff_t wrapped = config.circular ? ((c % chunks) + chunks) % chunks : c;
      if (wrapped < 0 || wrapped >= chunks) continue;
      const std::size_t first = static_cast<std::size_t>(wrapped) * config.chunk;
      for (std::size_t j = first; j < std::min(first + config.chunk, length); ++j) {
        if (s.causal && j > at % s.n) continue;
        T score{};
        for (std::size_t x = 0; x < s.d; ++x) {
          score += t.q[at * s.d + x] * t.k[(plane * s.n + j) * s.d + x];
        }
        const T w = std::exp(score / std::sqrt(static_cast<double>(s.d)));
        sum += w;
        for (std::size_t x = 0; x < s.e; ++x) {
          y[at * s.e + x] += w * t.v[(plane * s.n + j) * s.e + x];
        }
      }
    }
    for (std::size_t x = 0; x < s.e; ++x) y[at * s.e + x] /= sum;
  }
  return y;
}

void check(const ReformerLocalConfig& config, const AttentionCase& c) {
  const std::string options =
      fmt::format("reformer-local:chunk={},before={},after={},circular={}", config.chunk,
                  config.before, config.after, config.circular ? 1 : 0);
  testing::check_reference(options, c, [&](const auto& t) { return reference(config, t); });
}

TEST(ReformerLocal, IsItsDefinition) {
  for (const ReformerLocalConfig& config :
       {ReformerLocalConfig{.chunk = 4},
        {.chunk = 5, .before = 1, .after = 1, .circular = true},
        {.chunk = 1, .before = 3, .after = 0},
        {.chunk = 64},
        {.chunk = 3, .before = 0, .after = 2, .circular = true}}) {
    for (const bool causal : {false, true}) {
      check(config, {.m = 1, .n = 1, .d = 1, .e = 1, .causal = causal});
      check(config,
            {.heads = 2, .kv_heads = 2, .m = 23, .n = 23, .d = 5, .e = 3, .causal = causal});
      check(config, {.batch = 3,
                     .m = 13,
                     .n = 13,
                     .d = 4,
                     .e = 3,
                     .causal = causal,
                     .key_lengths = {13, 0, 7}});
    }
  }
}

TEST(ReformerLocal, EveryInstructionSet) {
  testing::for_each_target([] {
    check({.chunk = 70, .after = 1}, {.m = 75, .n = 75, .d = 2, .e = 1});
    check({.chunk = 3, .before = 2}, {.m = 40, .n = 40, .d = 5, .e = 3, .causal = true});
  });
}

TEST(ReformerLocal, PassesTheCommonChecks) {
  testing::check_attention("reformer-local:chunk=16,after=1,circular=1");
}

TEST(ReformerLocal, OneChunkIsFullAttention) {
  for (const bool causal : {false, true}) {
    testing::check_exact("reformer-local:chunk=67", {.batch = 2,
                                                     .heads = 2,
                                                     .kv_heads = 2,
                                                     .m = 67,
                                                     .n = 67,
                                                     .d = 16,
                                                     .e = 9,
                                                     .causal = causal});
  }
}

}  // namespace
}  // namespace longspan
