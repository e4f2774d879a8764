#include "longspan/attention/memory/memory_attention.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "longspan/attention/memory/memory_attention_ref.h"
#include "longspan/attention/memory/memory_compressed.h"
#include "longspan/attention/memory/memory_compressed_ref.h"
#include "longspan/base/error.h"
#include "longspan/testing/check_attention.h"
#include "longspan/testing/check_reference.h"

namespace longspan {
namespace memory_attention_test {

using testing::AttentionCase;
using testing::AttentionProblem;
using testing::SitedAttention;

std::vector<AttentionCase> cases() {
  return {{.m = 1, .n = 1, .d = 1, .e = 1},
          {.heads = 2, .kv_heads = 1, .m = 11, .n = 11, .d = 3, .e = 3, .columns = true},
          {.batch = 3,
           .heads = 2,
           .kv_heads = 2,
           .m = 8,
           .n = 8,
           .d = 2,
           .e = 2,
           .key_lengths = {8, 5, 0}}};
}

TEST(Memory, AgreesWithItsDefinition) {
  for (AttentionCase c : cases()) {
    for (const bool causal : {false, true}) {
      c.causal = causal;
      const MemoryConfig config{.tokens = 3};
      testing::check_reference(fmt::format("memory:tokens={}", config.tokens), c,
                               [&](const auto& t) { return memory_reference(config, t); });
    }
  }
}

// Memory that no query likes is not there.
TEST(Memory, IsExactAttentionWhenTheMemoryIsFarAway) {
  const AttentionCase c{
      .heads = 2, .kv_heads = 2, .m = 70, .n = 70, .d = 4, .e = 4, .causal = true};
  SitedAttention sited("memory:tokens=5", c);
  AttentionProblem p(c);
  // Queries with a positive first element see the memory 1000 below everything else.
  for (std::size_t i = 0; i < p.q.size(); i += 4) p.q[i] = 1.0F;
  AttentionProblem exact = p;
  Parameter& keys = *sited.parameters().find("attention.memory.keys");
  for (std::size_t i = 0; i < keys.value.size(); ++i) keys.value[i] = i % 4 == 0 ? -1000.0F : 0.0F;
  p.run(sited);
  exact.run(FlashAttention());
  for (std::size_t i = 0; i < p.y.size(); ++i) EXPECT_NEAR(p.y[i], exact.y[i], 1e-6);
  for (std::size_t i = 0; i < p.dk.size(); ++i) EXPECT_NEAR(p.dk[i], exact.dk[i], 5e-6);
}

TEST(Memory, Refuses) { EXPECT_THROW(MemoryAttention::can({.tokens = 0}), Error); }

TEST(MemoryCompressed, AgreesWithItsDefinition) {
  for (AttentionCase c : cases()) {
    for (const bool causal : {false, true}) {
      c.causal = causal;
      for (const std::size_t stride : {1U, 3U, 4U}) {
        testing::check_reference(
            fmt::format("memory-compressed:stride={}", stride), c,
            [&](const auto& t) { return memory_compressed_reference({.stride = stride}, t); });
      }
    }
  }
}

// The last queries of a sequence, against all of its keys.
TEST(MemoryCompressed, DecodingIsThePrefill) {
  const AttentionCase c{.m = 20, .n = 20, .d = 4, .e = 4, .causal = true};
  SitedAttention sited("memory-compressed", c);
  AttentionProblem all(c);
  all.run(*sited, false);
  for (const std::size_t m : {1U, 2U, 7U}) {
    AttentionProblem last({.m = m, .n = 20, .d = 4, .e = 4, .causal = true});
    last.k = all.k;
    last.v = all.v;
    last.q.assign(all.q.end() - static_cast<std::ptrdiff_t>(4 * m), all.q.end());
    last.run(*sited, false);
    for (std::size_t i = 0; i < 4 * m; ++i) {
      EXPECT_NEAR(last.y[i], all.y[all.y.size() - 4 * m + i], 1e-6);
    }
  }
}

// Stride 1 with W = I is exact attention.
TEST(MemoryCompressed, IsExactWithStrideOne) {
  for (const bool causal : {false, true}) {
    const AttentionCase c{.m = 67, .n = 67, .d = 5, .e = 5, .causal = causal};
    SitedAttention sited("memory-compressed:stride=1", c);
    for (Parameter& p : sited.parameters().all()) {
      for (std::size_t i = 0; i < 25; ++i) p.value[i] = i % 6 == 0 ? 1.0F : 0.0F;
    }
    AttentionProblem p(c);
    p.run(sited);
    AttentionProblem exact(c);
    exact.run(FlashAttention());
    for (std::size_t i = 0; i < p.y.size(); ++i) EXPECT_NEAR(p.y[i], exact.y[i], 2e-6);
    for (std::size_t i = 0; i < p.dk.size(); ++i) EXPECT_NEAR(p.dk[i], exact.dk[i], 5e-6);
  }
}

TEST(MemoryCompressed, Refuses) {
  EXPECT_THROW(MemoryCompressedAttention::can({.stride = 0}), Error);
}

}  // namespace memory_attention_test
}  // namespace longspan
