#include "longspan/compare/approximation.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "longspan/base/error.h"

namespace longspan {
namespace approximation_test {

CompareError error_of(const std::string& attention, std::size_t length, bool causal = false,
                      float scale = 1.0F) {
  const AttentionCase c{.attention = attention,
                        .length = length,
                        .heads = 2,
                        .d_head = 16,
                        .causal = causal,
                        .backward = true};
  AttentionTensors tensors = random_tensors(c, 1);
  for (float& q : tensors.q) q *= scale;
  for (float& k : tensors.k) k *= scale;
  return approximation_error(c, tensors);
}

TEST(Approximation, ExactMechanismsAreExact) {
  for (const bool causal : {false, true}) {
    for (const char* name : {"flash", "full", "local:block=97", "window:window=200"}) {
      const CompareError e = error_of(name, 97, causal);
      EXPECT_LT(*e.output, 1e-5) << name;
      EXPECT_LT(*e.gradient, 1e-5) << name;
    }
  }
}

// With enough clusters, keys or buckets nothing is left out.
TEST(Approximation, VanishesWhereNothingIsLeftOut) {
  EXPECT_LT(*error_of("clustered:clusters=53", 53).output, 1e-5);
  EXPECT_LT(*error_of("improved-clustered:topk=53", 53).gradient, 1e-4);
}

// One bucket: every token sees all others but itself, which the reference does see.
TEST(Approximation, SharedKeysAreComparedWithUnitKeys) {
  const CompareError e = error_of("reformer:buckets=2,chunk=131,before=1,after=1,rounds=4", 131);
  EXPECT_LT(*e.output, 0.3);
  EXPECT_LT(*e.gradient, 0.6);
  EXPECT_GT(*e.output, 1e-4);
}

TEST(Approximation, FallsWithTheNumberOfFeatures) {
  const double few = *error_of("performer:features=16", 200, false, 0.5F).output;
  const double many = *error_of("performer:features=2048", 200, false, 0.5F).output;
  EXPECT_LT(many, 0.5 * few);
  EXPECT_GT(many, 1e-4);
}

// It was 0 where exact attention gave no numbers.
TEST(Approximation, OfWhatIsNotFiniteThereIsNone) {
  EXPECT_THROW(error_of("linear", 7, false, std::numeric_limits<float>::quiet_NaN()), Error);
}

TEST(Approximation, WithoutBackwardThereIsNoGradient) {
  const AttentionCase c{.attention = "linear", .length = 7, .heads = 1, .d_head = 5};
  AttentionTensors tensors = random_tensors(c, 1);
  const CompareError e = approximation_error(c, tensors);
  EXPECT_TRUE(e.output.has_value());
  EXPECT_FALSE(e.gradient.has_value());
}

TEST(Approximation, SizesAreWhatTheRunTakes) {
  const AttentionCase c{
      .attention = "longformer", .length = 70, .heads = 2, .d_head = 8, .backward = true};
  const AttentionSizes sizes = attention_sizes(c);
  AttentionTensors tensors = random_tensors(c, 1);
  AttentionRun run(c, tensors);
  run.run();
  EXPECT_EQ(run.arena_peak(), std::max(sizes.cost.forward_scratch, sizes.cost.backward_scratch));
  EXPECT_GT(sizes.parameters, 0);
}

}  // namespace approximation_test
}  // namespace longspan
