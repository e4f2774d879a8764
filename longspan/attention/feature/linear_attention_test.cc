#include "longspan/attention/feature/linear_attention.h"

#include <gtest/gtest.h>

#include "longspan/attention/feature/linear_attention_ref.h"
#include "longspan/base/error.h"
#include "longspan/testing/check_attention.h"
#include "longspan/testing/check_reference.h"
#include "longspan/testing/for_each_target.h"

namespace longspan {
namespace linear_attention_test {

using testing::AttentionCase;
using testing::AttentionProblem;

void check(std::string_view specification, const LinearAttentionConfig& config,
           const AttentionCase& c) {
  testing::check_reference(specification, c,
                           [&](const auto& t) { return linear_reference(config, t); });
}

TEST(LinearAttention, AgreesWithItsDefinition) {
  const std::vector<AttentionCase> cases = {
      {.m = 1, .n = 1, .d = 1, .e = 1},
      {.m = 37, .n = 37, .d = 5, .e = 3, .columns = true},
      {.batch = 2,
       .heads = 2,
       .kv_heads = 1,
       .m = 9,
       .n = 14,
       .d = 3,
       .e = 17,
       .key_lengths = {14, 5}},
  };
  for (AttentionCase c : cases) {
    check("linear", {}, c);
    check("linear:features=softmax", {.features = "softmax"}, c);
    c.causal = true;
    check("linear:epsilon=0", {.epsilon = 0.0F}, c);
  }
}

TEST(LinearAttention, SoftmaxFeaturesPassTheChecksOfAllMechanisms) {
  testing::check_attention("linear:features=softmax");
}

// Blocks of 64 against one token at a time and against the masked matrix.
TEST(LinearAttention, BlocksAreTheRecurrence) {
  for (const std::size_t n : {1U, 63U, 64U, 65U, 200U, 700U}) {
    const AttentionCase c{.m = n, .n = n, .d = 8, .e = 6, .causal = true};
    AttentionProblem p(c);
    p.run(LinearAttention(), false);
    const auto t = p.tensors(Parameters());
    const std::vector<double> y(p.y.begin(), p.y.end());
    const auto recurrent = linear_recurrence(1e-6, n, 8, 6, t.q, t.k, t.v);
    EXPECT_LT(testing::relative_error(y, recurrent), 1e-5) << n;
    EXPECT_LT(testing::relative_error(linear_reference({}, t), recurrent), 1e-13) << n;
  }
}

TEST(LinearAttention, LastTokenSeesWhatAllSee) {
  AttentionCase c{.m = 130, .n = 130, .d = 16, .e = 16};
  AttentionProblem all(c);
  all.run(LinearAttention(), false);
  c.causal = true;
  AttentionProblem causal(c);
  causal.run(LinearAttention(), false);
  for (std::size_t i = 129 * 16; i < 130 * 16; ++i) EXPECT_NEAR(all.y[i], causal.y[i], 1e-6);
}

TEST(LinearAttention, DecodingIsThePrefill) {
  const AttentionCase c{
      .batch = 2, .heads = 2, .kv_heads = 2, .m = 70, .n = 70, .d = 8, .e = 8, .causal = true};
  AttentionProblem p(c);
  const LinearAttention linear;
  p.run(linear, false);
  const AttentionInputs all = p.inputs();
  std::vector<float> state;
  for (std::size_t t = 0; t < 70; ++t) {
    AttentionInputs in = all;
    for (ConstHeads* x : {&in.q, &in.k, &in.v}) {
      x->data += t * x->row_stride;
      x->n = 1;
    }
    const AttentionShape s = shape_of(in);
    state.resize(linear.state_floats(s));
    Arena arena(linear.decode_cost(s).forward_scratch);
    std::vector<float> y(4 * 8);
    linear.decode(in, {y.data(), 2, 2, 1, 8}, state, arena);
    for (std::size_t plane = 0; plane < 4; ++plane) {
      for (std::size_t i = 0; i < 8; ++i) {
        EXPECT_NEAR(y[plane * 8 + i], p.y[(plane * 70 + t) * 8 + i], 1e-5);
      }
    }
  }
}

TEST(LinearAttention, RefusesWhatItCannotDo) {
  EXPECT_THROW(LinearAttention::can({.features = "exp"}), Error);
  EXPECT_THROW(LinearAttention::can({.epsilon = -1.0F}), Error);
  const LinearAttention softmax({.features = "softmax"});
  EXPECT_THROW(softmax.check({.m = 4, .n = 4, .d = 2, .e = 2, .causal = true}), Error);
}

}  // namespace linear_attention_test
}  // namespace longspan
