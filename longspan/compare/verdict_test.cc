#include "longspan/compare/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longspan {
namespace verdict_test {

// A tenth either way.
Contender around(std::string_view attention, double seconds, double given_up = 0.0) {
  const bool exact = attention == "flash" || attention == "full";
  return {attention, exact, seconds / 1.1, seconds, seconds * 1.1, given_up};
}

std::string_view pick(const std::vector<Contender>& all) { return all[decide(all).pick].attention; }

TEST(Verdict, WhatErrsByMoreThanHalfReplacesNothing) {
  EXPECT_TRUE(replaces_exact(true, std::nullopt));
  EXPECT_TRUE(replaces_exact(true, 1e-6, 0.0)) << "rounding is no error";
  EXPECT_TRUE(replaces_exact(false, 0.5));
  EXPECT_FALSE(replaces_exact(false, 0.51));
  EXPECT_FALSE(replaces_exact(false, 1.0)) << "as far away as zeros";
  EXPECT_FALSE(replaces_exact(false, std::nullopt)) << "an unknown error is not small";
  EXPECT_FALSE(replaces_exact(false, 0.2, 0.1));
  EXPECT_THAT(trained_only_text(15.3, "random inputs"),
              ::testing::AllOf(::testing::HasSubstr("error of 15 on random inputs"),
                               ::testing::EndsWith("a model must be trained with it")));
  EXPECT_THAT(trained_only_text({}, ""), ::testing::HasSubstr("is not known"));
}

TEST(Verdict, TiesGoToExactAttentionAndFlashFirst) {
  EXPECT_EQ(pick({around("linear", 1.0), around("full", 1.05), around("flash", 1.15)}), "flash");
  EXPECT_EQ(pick({around("linear", 1.0), around("full", 1.05), around("flash", 1.5)}), "full");
  EXPECT_EQ(pick({around("linear", 1.0), around("full", 2.0), around("flash", 1.5)}), "linear");
}

TEST(Verdict, ElseToWhatGivesUpLeast) {
  const std::vector<Contender> all = {around("linear", 1.0, 0.3), around("window", 1.1, 0.1),
                                      around("local", 1.5, 0.0), around("flash", 3.0)};
  EXPECT_EQ(pick(all), "window");
  EXPECT_THAT(decide(all).tied, ::testing::ElementsAre(true, true, false, false));
}

// window is tied with linear, and flash with window, but not with linear.
TEST(Verdict, ThePickIsClearlyFasterThanExactAttention) {
  EXPECT_EQ(pick({around("linear", 1.0, 0.3), around("window", 1.1, 0.1), around("flash", 1.3)}),
            "linear");
}

}  // namespace verdict_test
}  // namespace longspan
