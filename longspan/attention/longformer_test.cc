#include "longspan/attention/longformer.h"

#include <gtest/gtest.h>

#include "longspan/attention/longformer_ref.h"
#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "longspan/testing/check_attention.h"
#include "longspan/testing/check_reference.h"
#include "longspan/testing/for_each_target.h"

namespace longspan {
namespace {

using testing::AttentionCase;
using testing::AttentionProblem;

void check(const std::string& options, const AttentionCase& c) {
  LongformerConfig config;
  parse_options("longformer", options, config);
  const LongformerAttention attention(config);
  testing::check_reference("longformer:" + options, c, LongformerReference{attention});
}

const char* const kOptions[] = {"window=4", "window=5,global=0", "window=2,global=3,dilation=1:2",
                                "window=0,global=40"};

TEST(Longformer, IsWhatItsDefinitionSays) {
  for (const char* options : kOptions) {
    check(options, {.m = 1, .n = 1, .d = 2, .e = 2});
    check(options, {.heads = 2, .kv_heads = 2, .m = 11, .n = 11, .d = 3, .e = 3});
    check(options, {.batch = 3, .m = 9, .n = 9, .d = 2, .e = 2, .key_lengths = {9, 0, 5}});
  }
}

TEST(Longformer, AgreesOnEveryInstructionSet) {
  testing::for_each_target([] {
    check("window=6,global=2", {.heads = 2, .kv_heads = 2, .m = 13, .n = 13, .d = 2, .e = 2});
  });
}

TEST(Longformer, EqualsFullWhenTheWindowCoversTheSequence) {
  const AttentionCase c{.heads = 2, .kv_heads = 2, .m = 130, .n = 130, .d = 16, .e = 16};
  testing::SitedAttention sited("longformer:window=260,global=0", c);
  AttentionProblem p(c, 1, sited->needs());
  p.run(sited, false);
  EXPECT_LT(testing::relative_error({p.y.begin(), p.y.end()}, p.reference().forward()), 2e-6);
}

// Tokens that the mask names, far from the window: the same as moving them to the front.
TEST(Longformer, GlobalTokensMayBeAnywhere) {
  const AttentionCase c{.m = 150, .n = 150, .d = 8, .e = 8};
  testing::SitedAttention sited("longformer:window=20", c);
  AttentionProblem p(c, 1, sited->needs());
  std::vector<std::uint8_t> marks(150, 0);
  marks[0] = marks[70] = marks[71] = marks[149] = 1;
  AttentionInputs in = p.inputs();
  in.mask.globals = marks;
  const AttentionCost cost = sited->cost(shape_of(in));
  Arena arena(cost.forward_scratch);
  std::vector<float> y(150 * 8);
  sited->forward(in, Heads(y.data(), 1, 1, 150, 8), {}, arena);
  EXPECT_EQ(arena.peak(), cost.forward_scratch);
  auto t = p.tensors(sited.parameters());
  t.shape.globals = marks;
  const LongformerReference reference{dynamic_cast<const LongformerAttention&>(*sited)};
  EXPECT_LT(testing::relative_error({y.begin(), y.end()}, reference(t)), 2e-6);
}

TEST(Longformer, MeetsTheCommonChecks) {
  for (const char* options : {"longformer", "longformer:window=30,global=3,dilation=1:3"}) {
    testing::check_attention(options);
  }
}

TEST(Longformer, RefusesNonsense) {
  EXPECT_THROW(LongformerAttention({.dilation = "1:0"}), Error);
  EXPECT_THROW(LongformerAttention({.dilation = ""}), Error);
  Parameters parameters;
  LongformerAttention attention;
  EXPECT_THROW(attention.check({.m = 3, .n = 3, .d = 4, .e = 4}), Error);
  attention.declare({.parameters = parameters, .d_model = 4, .d_head = 4});
  EXPECT_THROW(attention.check({.m = 3, .n = 3, .d = 4, .e = 4, .causal = true}), Error);
}

}  // namespace
}  // namespace longspan
