#include "longspan/attention/position/funnel.h"

#include <gtest/gtest.h>

#include <initializer_list>

#include "longspan/attention/position/funnel_ref.h"
#include "longspan/base/error.h"
#include "longspan/testing/check_attention.h"
#include "longspan/testing/check_reference.h"
#include "longspan/testing/for_each_target.h"

namespace longspan {
namespace funnel_test {

using testing::AttentionCase;

void check(const AttentionCase& c, bool cls = true) {
  testing::check_reference(cls ? "funnel" : "funnel:cls=false", c,
                           FunnelReference{.cls = cls, .step = c.step});
}

// One of each type at the beginning, then two segments.
std::vector<std::int32_t> segments(std::size_t batch, std::size_t n) {
  std::vector<std::int32_t> types;
  for (std::size_t i = 0; i < batch * n; ++i) {
    types.push_back(i % n == 0 ? 2 : i % n < 3 + i / n ? 0 : 1);
  }
  return types;
}

TEST(Funnel, IsWhatItsDefinitionSays) {
  for (const bool cls : {true, false}) {
    check({.m = 1, .n = 1, .d = 2, .e = 2}, cls);
    check({.heads = 2, .kv_heads = 2, .m = 9, .n = 9, .d = 3, .e = 3, .step = 4}, cls);
    check({.batch = 3, .m = 7, .n = 7, .d = 4, .e = 4, .key_lengths = {7, 0, 3}}, cls);
    check({.m = 67, .n = 67, .d = 2, .e = 2}, cls);
  }
}

TEST(Funnel, PooledQueriesReadUnpooledKeys) {
  for (const bool cls : {true, false}) {
    check({.heads = 2, .kv_heads = 2, .m = 6, .n = 11, .d = 3, .e = 3}, cls);
    check({.m = 6, .n = 12, .d = 2, .e = 2, .step = 2}, cls);
    check({.batch = 2, .m = 5, .n = 9, .d = 4, .e = 4, .key_lengths = {4, 1}, .step = 2}, cls);
    check({.m = 34, .n = 67, .d = 2, .e = 2}, cls);
  }
}

TEST(Funnel, TokenTypesReachTheScores) {
  for (const bool cls : {true, false}) {
    check({.batch = 2, .m = 9, .n = 9, .d = 3, .e = 3, .token_types = segments(2, 9)}, cls);
    check({.batch = 2, .m = 5, .n = 9, .d = 3, .e = 3, .token_types = segments(2, 9)}, cls);
  }
}

// XLNet's: types agree with themselves alone.
TEST(Funnel, TypesWithoutAJoker) {
  const auto xlnet = [](const AttentionCase& c) {
    testing::check_reference("funnel:cls=false,joker=false", c,
                             FunnelReference{.cls = false, .joker = false, .step = c.step});
  };
  std::vector<std::int32_t> types = segments(2, 9);
  types[5] = types[11] = 3;
  xlnet({.batch = 2,
         .heads = 2,
         .kv_heads = 2,
         .m = 9,
         .n = 9,
         .d = 3,
         .e = 3,
         .token_types = types});
  xlnet({.batch = 2, .m = 9, .n = 9, .d = 3, .e = 3, .key_lengths = {9, 4}, .token_types = types});
  xlnet({.m = 67, .n = 67, .d = 2, .e = 2});
  testing::check_attention("funnel:cls=false,joker=false");
}

TEST(Funnel, AgreesOnEveryInstructionSet) {
  testing::for_each_target([] {
    check({.heads = 2, .kv_heads = 2, .m = 21, .n = 21, .d = 2, .e = 2});
    check({.m = 21, .n = 41, .d = 2, .e = 2});
  });
}

TEST(Funnel, MeetsTheCommonChecks) {
  testing::check_attention("funnel");
  for (const char* name : {"funnel", "funnel:cls=false"}) {
    for (const AttentionCase& c : std::initializer_list<AttentionCase>{
             {.m = 1, .n = 2, .d = 3, .e = 3},
             {.batch = 2, .m = 34, .n = 67, .d = 16, .e = 16, .key_lengths = {67, 20}},
             {.heads = 3, .kv_heads = 3, .m = 260, .n = 520, .d = 8, .e = 8, .columns = true},
             {.m = 600, .n = 1199, .d = 17, .e = 17, .dropout = 0.2F}}) {
      testing::check_cost(name, c);
      testing::check_threads(name, c);
      testing::check_batch(name, c);
    }
  }
}

TEST(Funnel, RefusesOtherTypes) {
  testing::SitedAttention sited("funnel", {.m = 2, .n = 2, .d = 2, .e = 2});
  testing::AttentionProblem p({.m = 2, .n = 2, .d = 2, .e = 2, .token_types = {0, 3}});
  EXPECT_THROW(p.run(*sited), Error);
}

}  // namespace funnel_test
}  // namespace longspan
