#include "longspan/attention/cluster/reformer.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "longspan/attention/cluster/reformer_ref.h"
#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "longspan/testing/check_attention.h"
#include "longspan/testing/check_reference.h"
#include "longspan/testing/for_each_target.h"

namespace longspan {
namespace reformer_test {

using testing::AttentionCase;
using testing::AttentionProblem;
using testing::AttentionTensors;
using testing::SitedAttention;

ReformerConfig parse(std::string_view options) {
  ReformerConfig config;
  parse_options("reformer", options, config);
  return config;
}

template <class T>
ReformerReference<T> reference_of(const ReformerConfig& config, const AttentionTensors<T>& t) {
  ReformerReference<T> r;
  r.config = config;
  r.code = testing::Alone<ReformerAttention>(config)->code(t.shape.n);
  r.shape = t.shape;
  for (const T& x : t.parameters.at("attention.rotations")) r.rotations.push_back(std::real(x));
  r.q = t.q;
  r.k = t.k;
  r.v = t.v;
  return r;
}

void check(const std::string& options, const AttentionCase& c) {
  const ReformerConfig config = parse(options);
  testing::check_reference("reformer:" + options, c,
                           [&](const auto& t) { return reference_of(config, t).forward(); });
}

const std::vector<std::string> kVariants = {
    "chunk=4,rounds=2",
    "chunk=5,rounds=3,buckets=4,after=1",
    "chunk=4,rounds=3,buckets=6,same_bucket=0,strict=0",
    "chunk=4,rounds=2,buckets=4,same_bucket=0,strict=0,deduplicate=0,wrap=all,scaling=trax",
    "chunk=3,rounds=2,buckets=2x4,wrap=round,same_bucket=0,strict=0,deduplicate=0,after=1",
    "chunk=4,rounds=1,buckets=4,before=2,padding=bucket",
    "chunk=7,rounds=2,buckets=4,padding=hash,scaling=trax",
    "chunk=64,rounds=2,buckets=2",
};

std::string unstrict(const std::string& options) {
  return options.find("strict=0") != std::string::npos ? options : options + ",strict=0";
}

TEST(Reformer, IsItsDefinition) {
  for (const std::string& options : kVariants) {
    check(options, {.m = 1, .n = 1, .d = 1, .e = 1});
    check(options, {.m = 23, .n = 23, .d = 5, .e = 3});
    check(options, {.batch = 2, .heads = 2, .kv_heads = 2, .m = 13, .n = 13, .d = 3, .e = 4});
  }
}

TEST(Reformer, IsItsDefinitionWhenCausal) {
  for (const std::string& options : kVariants) {
    AttentionCase c{.m = 23, .n = 23, .d = 5, .e = 3, .causal = true};
    check(unstrict(options), c);
    const ReformerConfig config = parse(options);
    if (config.same_bucket && config.wrap == "none") check(options + ",strict=1", c);
  }
}

TEST(Reformer, IsItsDefinitionWithPadding) {
  for (const std::string& options : kVariants) {
    AttentionCase c{.batch = 3, .m = 13, .n = 13, .d = 4, .e = 3, .key_lengths = {13, 0, 7}};
    check(options, c);
    c.causal = true;
    check(unstrict(options), c);
  }
}

TEST(Reformer, EveryInstructionSet) {
  testing::for_each_target([] {
    check("chunk=18,rounds=2,buckets=2", {.m = 40, .n = 40, .d = 5, .e = 3});
    check("chunk=70,rounds=2,buckets=2,after=1,same_bucket=0", {.m = 77, .n = 77, .d = 2, .e = 1});
  });
}

TEST(Reformer, PassesTheCommonChecks) {
  testing::check_attention("reformer:chunk=16,rounds=3,buckets=8,after=1");
}

TEST(Reformer, DecodesTheRowsOfTheWhole) {
  for (const std::string& options : kVariants) {
    SCOPED_TRACE(options);
    testing::check_decode("reformer:" + unstrict(options));
    const ReformerConfig config = parse(options);
    if (config.same_bucket && config.wrap == "none") testing::check_decode("reformer:" + options);
  }
  for (const char* wrap : {"round", "all"}) {
    testing::check_decode(
        fmt::format("reformer:chunk=5,rounds=3,buckets=4,same_bucket=0,strict=0,wrap={}", wrap));
  }
}

// softmax(q·k̂/√d) over all others, k̂ = k/‖k‖.
std::vector<double> without_self(const AttentionProblem& p) {
  AttentionTensors<double> t = p.tensors(Parameters());
  const AttentionShape& s = t.shape;
  std::vector<double> y(p.dy.size(), 0.0);
  for (std::size_t at = 0; at < s.batch * s.heads * s.n; ++at) {
    const std::size_t plane = at / s.n;
    double sum = 0.0;
    for (std::size_t j = 0; j < (s.causal ? at % s.n : s.n); ++j) {
      if (j == at % s.n) continue;
      double dot = 0.0;
      double square = 0.0;
      for (std::size_t c = 0; c < s.d; ++c) {
        const double key = t.k[(plane * s.n + j) * s.d + c];
        dot += t.q[at * s.d + c] * key;
        square += key * key;
      }
      const double w = std::exp(dot / std::sqrt(square * static_cast<double>(s.d)));
      sum += w;
      for (std::size_t c = 0; c < s.e; ++c) {
        y[at * s.e + c] += w * t.v[(plane * s.n + j) * s.e + c];
      }
    }
    for (std::size_t c = 0; c < s.e; ++c) {
      y[at * s.e + c] = sum == 0.0 ? t.v[at * s.e + c] : y[at * s.e + c] / sum;
    }
  }
  return y;
}

// One chunk that everybody is in: exact attention of shared queries and keys, for any number of
// rounds, with or without de-duplication.
TEST(Reformer, OneChunkIsFullAttention) {
  for (const bool causal : {false, true}) {
    const AttentionCase c{
        .batch = 2, .heads = 2, .kv_heads = 2, .m = 67, .n = 67, .d = 16, .e = 9, .causal = causal};
    for (const std::size_t rounds : {1U, 2U, 5U}) {
      for (const std::size_t deduplicate : {0U, 1U}) {
        SitedAttention reformer(
            fmt::format("reformer:chunk=67,rounds={},deduplicate={},same_bucket=0,strict=0", rounds,
                        deduplicate),
            c);
        AttentionProblem p(c, 1, reformer.wants());
        p.run(reformer, false);
        EXPECT_LE(testing::relative_error({p.y.begin(), p.y.end()}, without_self(p)), 2e-6);
      }
    }
  }
}

// More rounds see more of what matters: vectors that are alike meet sooner or later.
TEST(Reformer, ErrorFallsWithRounds) {
  const AttentionCase c{.heads = 4, .kv_heads = 4, .m = 256, .n = 256, .d = 16, .e = 16};
  double previous = 1e300;
  for (const std::size_t rounds : {1U, 4U, 16U, 64U}) {
    SitedAttention reformer(fmt::format("reformer:chunk=32,rounds={},buckets=16", rounds), c);
    AttentionProblem p(c, 1, reformer.wants());
    for (float& x : p.q) x *= 3.0F;
    p.run(reformer, false);
    const std::vector<double> want = without_self(p);
    double error = 0.0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      error += (p.y[i] - want[i]) * (p.y[i] - want[i]);
    }
    EXPECT_LT(error, 0.8 * previous) << rounds;
    previous = error;
  }
}

TEST(Reformer, RowsSumToOne) {
  const AttentionCase c{
      .batch = 2, .m = 150, .n = 150, .d = 8, .e = 1, .causal = true, .key_lengths = {150, 90}};
  SitedAttention reformer("reformer:chunk=16", c);
  AttentionProblem p(c, 1, reformer.wants());
  std::fill(p.v.begin(), p.v.end(), 1.0F);
  p.run(reformer, false);
  for (std::size_t i = 0; i < p.y.size(); ++i) {
    const bool padded = i >= 150 + 90;
    EXPECT_NEAR(p.y[i], padded ? 0.0F : 1.0F, 2e-6) << i;
  }
}

// Cutting padding off changes no bit of what remains.
TEST(Reformer, PaddingIsNeverTouched) {
  const AttentionCase whole{.m = 200, .n = 200, .d = 16, .e = 16, .key_lengths = {131}};
  const AttentionCase cut{.m = 131, .n = 131, .d = 16, .e = 16};
  SitedAttention reformer("reformer:chunk=16", whole);
  AttentionProblem a(whole, 1, reformer.wants());
  AttentionProblem b(cut, 1, reformer.wants());
  for (auto [to, from] : {std::pair(&b.q, &a.q), std::pair(&b.v, &a.v), std::pair(&b.dy, &a.dy)}) {
    std::copy_n(from->begin(), to->size(), to->begin());
  }
  a.run(reformer);
  b.run(reformer);
  for (auto [all, part] :
       {std::pair(&a.y, &b.y), std::pair(&a.dq, &b.dq), std::pair(&a.dv, &b.dv)}) {
    EXPECT_TRUE(std::equal(part->begin(), part->end(), all->begin()));
    EXPECT_TRUE(std::all_of(all->begin() + static_cast<std::ptrdiff_t>(part->size()), all->end(),
                            [](float x) { return x == 0.0F; }));
  }
}

// The second pass of a reversible layer sees inputs that differ in the last bits: backward goes by
// the hashes of the first.
TEST(Reformer, BackwardUsesTheHashesOfForward) {
  const AttentionCase c{.m = 96, .n = 96, .d = 8, .e = 8};
  SitedAttention reformer("reformer:chunk=8,rounds=2", c);
  AttentionProblem p(c, 1, reformer.wants());
  p.run(reformer);
  const std::vector<float> dq = p.dq;
  const AttentionShape s = p.shape();
  const std::span<float> rotations = reformer.parameters().all().front().value;
  for (float& x : rotations) x = -x;  // every bucket would change
  const AttentionCost cost = reformer->cost(s);
  Arena arena(cost.backward_scratch);
  const AttentionGradients grad{.q = Heads(p.dq.data(), 1, 1, 96, 8),
                                .v = Heads(p.dv.data(), 1, 1, 96, 8)};
  reformer->backward({p.inputs(),
                      ConstHeads(p.y.data(), 1, 1, 96, 8),
                      ConstHeads(p.dy.data(), 1, 1, 96, 8),
                      p.saved,
                      grad,
                      {},
                      arena});
  EXPECT_EQ(p.dq, dq);
}

TEST(Reformer, CostGrowsAlmostLinearly) {
  auto cost = [](std::size_t n) {
    testing::Alone<ReformerAttention> reformer(
        ReformerConfig{}, {.d_model = 512, .heads = 8, .d_head = 64, .max_length = n});
    return reformer->cost({.heads = 8, .kv_heads = 8, .m = n, .n = n, .d = 64, .e = 64});
  };
  for (const std::size_t n : {8192U, 16384U, 32768U}) {
    const AttentionCost once = cost(n);
    const AttentionCost twice = cost(2 * n);
    EXPECT_LE(static_cast<double>(twice.forward.flops()),
              2.1 * static_cast<double>(once.forward.flops()));
    EXPECT_LE(twice.backward_scratch, 2 * once.backward_scratch);
  }
}

TEST(Reformer, HasTwiceAsManyBucketsAsChunks) {
  auto factors = [](std::size_t n) {
    return testing::Alone<ReformerAttention>(ReformerConfig{})->code(n).factors;
  };
  using Factors = std::array<std::size_t, LshCode::kMostFactors>;
  EXPECT_EQ(factors(0), (Factors{2}));
  EXPECT_EQ(factors(65), (Factors{4}));
  EXPECT_EQ(factors(4096), (Factors{128}));
  EXPECT_EQ(factors(8192), (Factors{16, 16}));
  EXPECT_EQ(factors(65536), (Factors{16, 16, 8}));
  for (const std::size_t n : {100U, 5000U, 100000U, 10000000U}) {
    const std::size_t buckets =
        testing::Alone<ReformerAttention>(ReformerConfig{})->code(n).buckets();
    EXPECT_GE(buckets, 2 * n / 64);
    EXPECT_LT(buckets, 4 * (n / 64 + 1));
  }
}

TEST(Reformer, RefusesWithAReason) {
  auto message = [](const auto& body) {
    try {
      body();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_EQ(message([] { ReformerAttention::can({.buckets = "7"}); }),
            "[reformer] buckets is '7'; need up to 4 even factors, as in 16x8");
  EXPECT_EQ(message([] { ReformerAttention::can({.chunk = 0}); }),
            "[reformer] chunk is 0; need a whole number from 1 to 1e7");
  EXPECT_EQ(message([] { ReformerAttention::can({.wrap = "rond"}); }),
            "[reformer] unknown wrap 'rond'; did you mean 'round'? Known: none, round, all");
  const AttentionShape causal{.m = 8, .n = 8, .d = 4, .e = 4, .causal = true};
  EXPECT_EQ(
      message([&] {
        testing::Alone<ReformerAttention>(ReformerConfig{.same_bucket = false})->check(causal);
      }),
      "[reformer] is strictly causal only among tokens of the same bucket; need same_bucket "
      "or strict=false, which lets later tokens move the chunks");
  const std::vector<std::int32_t> lengths = {7};
  AttentionShape last = causal;
  last.m = 1;
  last.key_lengths = lengths;
  EXPECT_EQ(message([&] { testing::Alone<ReformerAttention>(ReformerConfig{})->check(last); }),
            "[reformer] key lengths while decoding; need whole sequences");
}

}  // namespace reformer_test
}  // namespace longspan
