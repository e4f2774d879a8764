#include "longspan/attention/position/relative_key.h"

#include <gtest/gtest.h>

#include <initializer_list>

#include "longspan/attention/position/relative_key_ref.h"
#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "longspan/testing/check_attention.h"
#include "longspan/testing/check_reference.h"
#include "longspan/testing/for_each_target.h"

namespace longspan {
namespace relative_key_test {

using testing::AttentionCase;

void check(const std::string& options, const AttentionCase& c) {
  RelativeKeyConfig config;
  parse_options("relative-key", options, config);
  testing::check_reference("relative-key:" + options, c, RelativeKeyReference{config});
}

// Every distance a row of its own, and longer sequences than that.
const char* const kOptions[] = {"positions=70", "positions=70,p2c=1", "positions=4",
                                "positions=4,p2c=1", "positions=1,p2c=1"};

TEST(RelativeKey, IsWhatItsDefinitionSays) {
  for (const char* options : kOptions) {
    check(options, {.m = 1, .n = 1, .d = 2, .e = 2});
    check(options, {.heads = 2, .kv_heads = 2, .m = 19, .n = 19, .d = 5, .e = 3});
    check(options, {.batch = 2, .heads = 4, .kv_heads = 2, .m = 9, .n = 9, .d = 3, .e = 2});
    check(
        options,
        {.batch = 3, .m = 13, .n = 13, .d = 4, .e = 4, .key_lengths = {13, 0, 7}, .dropout = 0.3F});
    check(options, {.m = 18, .n = 18, .d = 4, .e = 4, .causal = true});
    check(options, {.m = 5, .n = 18, .d = 4, .e = 4, .causal = true});
  }
}

// More tiles than one; at the table's end and in its middle.
TEST(RelativeKey, SpansTiles) {
  for (const bool causal : {false, true}) {
    check("positions=80,p2c=1", {.m = 67, .n = 67, .d = 2, .e = 1, .causal = causal});
    check("positions=30,p2c=1", {.m = 67, .n = 67, .d = 2, .e = 1, .causal = causal});
  }
  check("positions=67", {.m = 67, .n = 67, .d = 2, .e = 1});
}

TEST(RelativeKey, AgreesOnEveryInstructionSet) {
  testing::for_each_target([] {
    for (const char* options : kOptions) {
      check(options, {.heads = 2, .kv_heads = 2, .m = 21, .n = 21, .d = 5, .e = 3});
    }
  });
}

TEST(RelativeKey, MeetsTheCommonChecks) {
  for (const char* name : {"relative-key:positions=33", "relative-key:positions=200,p2c=true"}) {
    testing::check_attention(name);
    for (const AttentionCase& c : std::initializer_list<AttentionCase>{
             {.batch = 2, .m = 67, .n = 67, .d = 16, .e = 16, .key_lengths = {67, 20}},
             {.heads = 3, .kv_heads = 3, .m = 520, .n = 520, .d = 8, .e = 8, .columns = true},
             {.m = 1100, .n = 1100, .d = 17, .e = 17, .causal = true, .dropout = 0.2F}}) {
      testing::check_cost(name, c);
      testing::check_threads(name, c);
      testing::check_batch(name, c);
    }
  }
}

TEST(RelativeKey, RefusesNonsense) {
  EXPECT_THROW(RelativeKeyAttention::can({.positions = 0}), Error);
}

}  // namespace relative_key_test
}  // namespace longspan
