#include "longspan/attention/attention.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "longspan/attention/registry.h"
#include "longspan/base/error.h"
#include "longspan/testing/check_attention.h"
#include "longspan/testing/temporary_directory.h"
#include "longspan/testing/test_name.h"

namespace longspan {
namespace attention_test {

const AttentionLayout kLayout{.d_model = 4, .d_head = 4, .max_length = 64};

class EveryMechanism : public ::testing::TestWithParam<Mechanism> {};

TEST_P(EveryMechanism, PassesTheCommonChecks) { testing::check_attention(GetParam().name); }

TEST_P(EveryMechanism, IsDescribed) {
  EXPECT_FALSE(name_of(GetParam().kind).empty());
  // Whoever is not exact says what it gives up; the others add to exact attention, if anything.
  const bool exact = GetParam().abilities("").exact;
  EXPECT_TRUE(!exact || GetParam().gives_up.empty());
  for (const std::string_view options : GetParam().settings) {
    EXPECT_NO_THROW(GetParam().abilities(options)) << options;
  }
  EXPECT_FALSE(GetParam().complexity.empty());
  EXPECT_FALSE(GetParam().summary.empty());
  EXPECT_EQ(LoneAttention(GetParam().name, kLayout)->name(), GetParam().name);
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryMechanism,
                         ::testing::ValuesIn(mechanisms().begin(), mechanisms().end()),
                         [](const auto& instance) {
                           return testing::test_name(instance.param.name);
                         });

// The text of the Error that `body` throws.
template <class Body>
std::string error_of(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Registry, RefusesAbsurdOptions) {
  EXPECT_EQ(error_of([] { abilities_of("bigbird:seed=99999999999999,block=99999999999999"); }),
            "[bigbird] block is '99999999999999'; need a whole number from 1 to 1e7");
  EXPECT_EQ(error_of([] { abilities_of("performer:epsilon=nan"); }),
            "[performer] epsilon is 'nan'; need a number from 0 to 1");
  EXPECT_EQ(error_of([] { abilities_of("memory-compressed:stride=100000"); }),
            "[memory-compressed] stride is '100000'; need a whole number from 1 to 1024");
  EXPECT_EQ(error_of([] { abilities_of("reformer:buckets=1000000"); }),
            "[reformer] buckets is '1000000'; need a whole number from 2 to 4096");
  EXPECT_EQ(error_of([] { abilities_of("reformer:buckets=4096x4096x2"); }),
            "[reformer] buckets is '4096x4096x2'; need a product of at most 16777216");
  EXPECT_EQ(error_of([] { abilities_of("longformer:dilation=1:0"); }),
            "[longformer] dilation is '0'; need a whole number from 1 to 1e7");
}

TEST(Registry, LengthsThatWouldTakeMinutesToCountAreRefused) {
  for (const char* name : {"deberta", "transformer-xl"}) {
    const LoneAttention alone(
        name, {.d_model = 8, .heads = 2, .kv_heads = 2, .d_head = 4, .max_length = 1});
    AttentionShape shape{.heads = 2, .kv_heads = 2, .m = 1 << 20, .n = 1 << 20, .d = 4, .e = 4};
    EXPECT_EQ(error_of([&] { alone->cost(shape); }),
              "[attention] 1048576 keys with relative positions; need at most 131072, or another "
              "mechanism");
  }
}

TEST(Registry, NoNumberOfAnOptionIsAnythingElse) {
  for (const char* option : {"clustered:clusters",
                             "clustered:bits",
                             "clustered:iterations",
                             "clustered:seed",
                             "improved-clustered:clusters",
                             "improved-clustered:topk",
                             "improved-clustered:bits",
                             "improved-clustered:iterations",
                             "reformer:chunk",
                             "reformer:rounds",
                             "reformer:before",
                             "reformer:after",
                             "reformer:seed",
                             "reformer:buckets",
                             "linear:epsilon",
                             "performer:features",
                             "performer:redraw",
                             "performer:seed",
                             "performer:epsilon",
                             "performer:sum_epsilon",
                             "performer:relu_epsilon",
                             "linformer:k",
                             "linformer:length",
                             "memory:tokens",
                             "memory-compressed:stride",
                             "bigbird:block",
                             "bigbird:window",
                             "bigbird:random",
                             "bigbird:etc",
                             "bigbird:seed",
                             "local:block",
                             "local:before",
                             "local:after",
                             "longformer:window",
                             "longformer:global",
                             "longformer:dilation",
                             "window:window",
                             "window:dilation",
                             "deberta:span",
                             "deberta:buckets",
                             "deberta:epsilon"}) {
    for (const char* value :
         {"nan", "inf", "-inf", "-1", "1e400", "18446744073709551616", "abc", "", "0x10", "1e30"}) {
      const std::string specification = fmt::format("{}={}", option, value);
      EXPECT_NE(error_of([&] { abilities_of(specification); }), "no error") << specification;
    }
  }
}

TEST(Registry, SuggestsTheNearestName) {
  EXPECT_EQ(error_of([] { abilities_of("flsh"); }).substr(0, 64),
            "[attention] unknown mechanism 'flsh'; did you mean 'flash'? Know");
  EXPECT_EQ(error_of([] { abilities_of("full:blok=3"); }),
            "[full] unknown option 'blok'; need one of key_bias");
}

TEST(VisiblePairs, AgreesWithCounting) {
  const std::vector<std::int32_t> lengths = {5, 0, 9};
  for (const std::size_t m : {1U, 4U, 9U, 13U}) {
    for (const std::size_t tile : {1U, 3U, 64U}) {
      for (const bool causal : {false, true}) {
        AttentionShape s{
            .batch = 3, .m = m, .n = 9, .d = 1, .e = 1, .causal = causal, .key_lengths = lengths};
        Mask mask{.causal = causal, .key_lengths = lengths};
        std::uint64_t tiles = 0;
        for (std::size_t b = 0; b < 3; ++b) {
          for (std::size_t i = 0; i < m; ++i) {
            tiles += (visible_end(mask, b, i, m, 9) + tile - 1) / tile;
          }
        }
        EXPECT_EQ(visible_tiles(s, tile), tiles) << m << " " << tile << " " << causal;
        EXPECT_EQ(real_keys(s), 14U);
      }
    }
  }
}

// A mechanism that can do nothing, to hear it refuse.
class Unable final : public Attention {
 public:
  Unable() : Attention({}) {}
  std::string_view name() const override { return "unable"; }
  AttentionCost cost(const AttentionShape& /*shape*/) const override { return {}; }

 private:
  void run_forward(const ForwardCall& /*call*/) const override {}
  void run_backward(const BackwardCall& /*call*/) const override {}
};

TEST(Attention, RefusesWhatItCannotDo) {
  const Unable unable;
  const std::vector<std::int32_t> lengths = {3};
  AttentionShape s{.m = 4, .n = 4, .d = 2, .e = 2};
  EXPECT_EQ(error_of([&] { unable.check(s); }), "no error");
  auto with = [&](auto change) {
    AttentionShape changed = s;
    change(changed);
    return error_of([&] { unable.check(changed); });
  };
  EXPECT_EQ(with([](auto& x) { x.causal = true; }), "[unable] cannot be causal");
  EXPECT_EQ(with([](auto& x) { x.n = 5; }),
            "[unable] 4 queries and 5 keys; it needs equal lengths");
  EXPECT_EQ(with([&](auto& x) { x.key_lengths = lengths; }),
            "[unable] cannot mask padding by key lengths");
  EXPECT_EQ(with([](auto& x) { x.bias = true; }), "[unable] cannot add a bias to its scores");
  EXPECT_EQ(with([](auto& x) { x.dropout = true; }), "[unable] cannot drop attention weights");
  EXPECT_EQ(with([](auto& x) { x.heads = 2; }),
            "[unable] 2 heads over 1 key heads; it needs as many key heads");
}

// Products of these wrap: the views would be small and what is written through them large.
TEST(Attention, RefusesWhatCannotBeCounted) {
  const std::size_t huge = std::size_t{1} << 62U;
  for (const Mechanism& m : mechanisms()) {
    const LoneAttention attention(m.name, kLayout);
    for (AttentionShape s : {AttentionShape{.batch = huge},
                             {.heads = huge, .kv_heads = huge},
                             {.batch = 1U << 24U, .heads = 1U << 24U, .kv_heads = 1U << 24U}}) {
      s.m = s.n = 8;
      s.d = s.e = 4;
      EXPECT_NE(testing::message_of([&] { attention->check(s); }), "") << m.name;
    }
  }
}

// Its parameters have addresses that nobody can read until there is memory.
TEST(Attention, WithoutMemoryIsRefused) {
  constexpr std::size_t kLength = 8;
  std::size_t waiting = 0;
  for (const Mechanism& m : mechanisms()) {
    const LoneAttention attention(m.name, {.d_model = 4, .d_head = 4, .max_length = kLength});
    if (attention.parameters().all().empty()) continue;
    ++waiting;
    std::vector<float> x(4 * kLength);
    std::vector<float> y(4 * kLength);
    const Heads heads(x.data(), 1, 1, kLength, 4);
    const AttentionInputs in{.q = heads, .k = heads, .v = heads};
    const AttentionCost cost = attention->cost(shape_of(in));  // needs none
    Arena arena(std::max(cost.forward_scratch, cost.backward_scratch) + 4096);
    std::vector<float> saved(cost.saved);
    std::vector<float> signals(cost.signals);
    const Heads out(y.data(), 1, 1, kLength, 4);
    const std::string refusal =
        fmt::format("[{}] the weights have no memory; allocate first", m.name);
    EXPECT_EQ(testing::message_of([&] { attention->forward({in, out, saved, arena}); }), refusal);
    const AttentionGradients grad{.q = heads, .k = heads, .v = heads};
    EXPECT_EQ(testing::message_of([&] {
                attention->backward({in, out, out, saved, grad, signals, arena});
              }),
              refusal);
    EXPECT_EQ(testing::message_of([&] { attention->accumulate(in, saved, signals); }), refusal);
  }
  EXPECT_GT(waiting, 2U);
}

TEST(Attention, NamesWhatDoesNotFit) {
  const LoneAttention flash("flash", kLayout);
  auto run = [&](auto change) {
    testing::AttentionProblem p(
        {.batch = 2, .heads = 2, .kv_heads = 2, .m = 3, .n = 4, .d = 5, .e = 6});
    std::vector<float> y(p.dy.size());
    AttentionInputs in = p.inputs();
    Heads out(y.data(), 2, 2, 3, 6);
    change(in, out);
    Arena arena(flash->cost(p.shape()).forward_scratch);
    return error_of([&] { flash->forward({in, out, {}, arena}); });
  };
  const std::vector<std::int32_t> long_lengths = {4, 5};
  const std::vector<std::int32_t> one_length = {4};
  EXPECT_EQ(run([](auto&, auto&) {}), "no error");
  EXPECT_EQ(run([](auto& in, auto&) { in.k.d = 4; }), "[flash] keys are 4 wide; queries are 5");
  EXPECT_EQ(run([](auto& in, auto&) { in.v.n = 3; }), "[flash] 3 values for 4 keys");
  EXPECT_EQ(run([](auto& in, auto&) { in.q.heads = 3; }),
            "[flash] 3 heads over 2 key heads; need a divisor");
  EXPECT_EQ(run([](auto& in, auto&) { in.q.n = 0; }),
            "[flash] 0 queries and 4 keys; need at least one of each");
  EXPECT_EQ(run([](auto&, auto& y) { y.d = 5; }),
            "[flash] the output is [2, 2, 3, 5]; need [2, 2, 3, 6]");
  EXPECT_EQ(run([&](auto& in, auto&) { in.mask.key_lengths = long_lengths; }),
            "[flash] a key length is 5; need 0 to 4");
  EXPECT_EQ(run([&](auto& in, auto&) { in.mask.key_lengths = one_length; }),
            "[flash] 1 key lengths for a batch of 2");
  EXPECT_EQ(run([](auto& in, auto&) { in.dropout.rate = 1.0F; }),
            "[flash] dropout rate is 1; need 0 ≤ rate < 1");
}

}  // namespace attention_test
}  // namespace longspan
