#include "longspan/attention/pattern/transient_global.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <initializer_list>

#include "longspan/attention/pattern/transient_global_ref.h"
#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "longspan/testing/check_attention.h"
#include "longspan/testing/check_reference.h"
#include "longspan/testing/for_each_target.h"

namespace longspan {
namespace transient_global_test {

using testing::AttentionCase;
using testing::AttentionProblem;
using testing::SitedAttention;

void check(const std::string& options, const AttentionCase& c) {
  TransientGlobalConfig config;
  parse_options("transient-global", options, config);
  testing::check_reference("transient-global:" + options, c, TransientGlobalReference{config});
}

const char* const kOptions[] = {"radius=2,block=3,buckets=8,span=6", "radius=0,block=1,buckets=4",
                                "radius=3,block=4,scale=0.7,epsilon=0.1,buckets=6,span=9"};

// Whole blocks, an incomplete one, less than one, and padding that reaches into a block.
TEST(TransientGlobal, IsWhatItsDefinitionSays) {
  for (const char* options : kOptions) {
    for (const std::size_t n : {1U, 3U, 12U, 14U}) {
      check(options, {.m = n, .n = n, .d = 2, .e = 2});
    }
    check(options, {.heads = 2, .kv_heads = 2, .m = 11, .n = 11, .d = 3, .e = 3, .columns = true});
    check(options, {.heads = 2, .kv_heads = 1, .m = 9, .n = 9, .d = 2, .e = 2});
    check(options, {.batch = 4, .m = 9, .n = 9, .d = 2, .e = 2, .key_lengths = {9, 0, 2, 7}});
  }
}

// More than one tile of queries and of summaries.
TEST(TransientGlobal, SpansTiles) {
  check("radius=5,block=1,buckets=8,span=20", {.m = 67, .n = 67, .d = 1, .e = 1});
  check("radius=70,block=9,buckets=8,span=20",
        {.m = 131, .n = 131, .d = 1, .e = 1, .dropout = 0.3F});
}

TEST(TransientGlobal, AgreesOnEveryInstructionSet) {
  testing::for_each_target(
      [] { check(kOptions[0], {.heads = 2, .kv_heads = 2, .m = 21, .n = 21, .d = 3, .e = 3}); });
}

// Several passes over the summaries.
TEST(TransientGlobal, ReadsManySummaries) {
  const AttentionCase c{.m = 600, .n = 600, .d = 2, .e = 2};
  SitedAttention sited("transient-global:radius=3,block=1", c);
  AttentionProblem p(c, 1, sited.wants());
  p.run(sited);
  const auto want =
      TransientGlobalReference{{.radius = 3, .block = 1}}(p.tensors(sited.parameters()));
  EXPECT_LT(testing::relative_error(AttentionProblem::dense(p.heads(p.y, 1, 600, 2)), want), 5e-6);
  testing::check_cost("transient-global:radius=3,block=1", c);
}

TEST(TransientGlobal, WithoutBlocksIsTheWindow) {
  const AttentionCase c{.heads = 2, .kv_heads = 2, .m = 70, .n = 70, .d = 8, .e = 8};
  const auto run = [&](const char* name) {
    SitedAttention sited(name, c);
    for (float& x : sited.parameters().find("stack.distances")->value) x = 0.25F;
    AttentionProblem p(c, 1, sited.wants());
    p.run(sited);
    return p;
  };
  const AttentionProblem plain = run("flash:before=9,after=9,distances=buckets");
  const AttentionProblem none = run("transient-global:radius=9,block=71");
  EXPECT_EQ(none.y, plain.y);
  EXPECT_EQ(none.dq, plain.dq);
  EXPECT_EQ(none.dk, plain.dk);
}

TEST(TransientGlobal, MeetsTheCommonChecks) {
  for (const char* name :
       {"transient-global:radius=5,block=4", "transient-global:radius=100,block=16"}) {
    testing::check_attention(name);
    for (const AttentionCase& c : std::initializer_list<AttentionCase>{
             {.batch = 2, .m = 67, .n = 67, .d = 16, .e = 16, .key_lengths = {67, 20}},
             {.heads = 3, .kv_heads = 3, .m = 520, .n = 520, .d = 8, .e = 8, .columns = true},
             {.m = 1100, .n = 1100, .d = 17, .e = 17, .dropout = 0.2F}}) {
      testing::check_cost(name, c);
      testing::check_threads(name, c);
      testing::check_batch(name, c);
    }
  }
}

TEST(TransientGlobal, RefusesNonsense) {
  EXPECT_THROW(TransientGlobalAttention::can({.block = 0}), Error);
  EXPECT_THROW(TransientGlobalAttention::can({.buckets = 32, .span = 8}), Error);
}

}  // namespace transient_global_test
}  // namespace longspan
