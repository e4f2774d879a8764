#include "longspan/compare/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>

#include "longspan/attention/registry.h"
#include "longspan/base/error.h"
#include "longspan/compare/compare_plan.h"
#include "longspan/compare/verdict.h"
#include "longspan/predict/operation.h"

namespace longspan {
namespace advice_test {

// A machine on which nothing but multiply-adds takes time.
Calibration ideal() {
  Calibration c;
  c.caches = 1e6;
  c.memory = 1e8;
  for (const std::string& attention : advised_settings()) {
    ModelConfig config;
    config.attention = attention;
    config.family = Family::kEncoder;
    config.max_length = 64;
    const Model model(config);
    Model packed(config);
    packed.pack();
    const Batch shape{.batch = 1, .length = 64};
    for (const auto& operations :
         {forward_operations(packed, shape), step_operations(model, shape, OptimizerConfig{})}) {
      for (const Operation& o : operations) {
        std::vector<double>& x = c.rates[o.rate].warm;
        x.assign(o.x.size(), 0.0);
        if (o.maccs > 0) x[0] = 1e-11;
      }
    }
  }
  return c;
}

AdviceQuestion question(std::uint64_t length) {
  AdviceQuestion q;
  q.settings.layers = 1;
  q.settings.d_model = 64;
  q.settings.heads = 2;
  q.settings.d_ff = 128;
  q.length = length;
  return q;
}

TEST(Advice, KnowsEveryMechanismAndItsSettings) {
  const std::vector<std::string> all = advised_settings();
  for (const Mechanism& m : mechanisms()) {
    EXPECT_NE(std::ranges::find(all, m.name), all.end()) << m.name;
  }
  for (const std::string& spec : all) EXPECT_NO_THROW(abilities_of(spec)) << spec;
}

bool overlap(const AdviceCandidate& a, const AdviceCandidate& b) {
  return *a.prediction.time.low <= *b.prediction.time.high &&
         *b.prediction.time.low <= *a.prediction.time.high;
}

// At every length, whatever may be given up: nothing that answers is clearly faster than the pick,
// and nothing that is tied with it gives up less.
TEST(Advice, PicksWhatGivesUpLeastOfTheFastest) {
  const Calibration c = ideal();
  std::array<bool, 2> seen{};
  for (const std::uint64_t n : {64, 512, 2048}) {
    AdviceQuestion q = question(n);
    q.error = 1e6;
    const Advice advice = advise(c, q);
    ASSERT_NE(advice.pick(), nullptr);
    const AdviceCandidate& pick = *advice.pick();
    seen[pick.exact ? 1 : 0] = true;
    const auto fastest =
        std::ranges::min_element(advice.candidates, {}, [](const AdviceCandidate& x) {
          return x.refused.empty() ? *x.prediction.time.predicted : 1e30;
        });
    EXPECT_TRUE(overlap(pick, *fastest)) << pick.attention;
    for (const AdviceCandidate& other : advice.candidates) {
      if (!other.refused.empty()) continue;
      EXPECT_EQ(other.tied, overlap(other, *fastest)) << other.attention;
      if (!other.tied || pick.exact) continue;
      EXPECT_FALSE(other.exact) << other.attention;
      EXPECT_LE(*pick.error, *other.error) << other.attention;
    }
  }
  EXPECT_TRUE(seen[0] && seen[1]);
}

// What is not exact and errs by more than half comes behind exact attention, and is no pick.
TEST(Advice, NothingIsTakenForExactAttentionThatDoesNotResembleIt) {
  const Calibration c = ideal();
  for (const std::uint64_t n : {4, 64, 4096}) {
    const Advice advice = advise(c, question(n));
    ASSERT_NE(advice.pick(), nullptr);
    EXPECT_TRUE(advice.pick()->exact || *advice.pick()->error <= kReplaces) << n;
    bool behind = false;
    std::size_t apart = 0;
    for (const AdviceCandidate& candidate : advice.candidates) {
      if (!candidate.prediction.refused.empty()) continue;
      ASSERT_TRUE(candidate.error.has_value()) << candidate.attention;
      const bool far = !candidate.exact && *candidate.error > kReplaces;
      EXPECT_EQ(candidate.trained_only, far) << candidate.attention;
      EXPECT_EQ(candidate.refused.empty(), !far) << candidate.refused;
      EXPECT_FALSE(behind && candidate.exact) << candidate.attention << " comes behind at " << n;
      behind = behind || far;
      apart += far ? 1 : 0;
    }
    EXPECT_GT(apart, n >= 1024 ? 10 : 0) << n;
  }
}

TEST(Advice, ForANewModelQualityDecides) {
  const Calibration c = ideal();
  AdviceQuestion q = question(512);
  q.judged = {{"bigbird", ""}, {"flash", ""}, {"linear", ""}, {"window", "has an accuracy of 4 %"}};
  const Advice advice = advise(c, q);
  ASSERT_EQ(advice.candidates.size(), 4);
  EXPECT_EQ(advice.pick()->attention, "linear") << "the fastest of those that are as good";
  EXPECT_FALSE(advice.pick()->error.has_value()) << "errors do not count";
  EXPECT_EQ(advice.candidates.back().attention, "window");
  EXPECT_EQ(advice.candidates.back().refused, "has an accuracy of 4 %");
  const auto change = advice_changes(c, q, advice, /*longer=*/false);
  ASSERT_TRUE(change.has_value());
  EXPECT_EQ(change->attention, "flash") << "ties go to exact attention";
  q.length = change->length;
  EXPECT_EQ(advise(c, q).pick()->attention, "flash");
  q.length = 512;
  q.memory = 0.99 * *advice.pick()->prediction.memory.predicted;
  const Advice small = advise(c, q);
  EXPECT_THAT(small.find("linear")->refused, ::testing::StartsWith("needs "));
  q.settings.causal = true;
  q.memory.reset();
  const Advice causal = advise(c, q);
  EXPECT_LT(*causal.find("linear")->prediction.state, *causal.find("flash")->prediction.state);
}

// What fits here does not at some longer length.
TEST(Advice, NothingAnswersWhereTheMemoryEnds) {
  const Calibration c = ideal();
  AdviceQuestion q = question(512);
  q.judged = {{"flash", ""}};
  EXPECT_FALSE(advice_changes(c, q, advise(c, q), /*longer=*/true).has_value());
  q.memory = 1.01 * *advise(c, q).pick()->prediction.memory.predicted;
  const Advice fits = advise(c, q);
  ASSERT_NE(fits.pick(), nullptr);
  const auto longer = advice_changes(c, q, fits, /*longer=*/true);
  ASSERT_TRUE(longer.has_value());
  EXPECT_EQ(longer->attention, "");
  q.length = longer->length;
  EXPECT_EQ(advise(c, q).pick(), nullptr);
}

TEST(Advice, LongAndWideQuestionsAreAnsweredOrRefused) {
  const Calibration c = ideal();
  EXPECT_THROW(advise(c, question(kLongestCompared + 1)), Error);
  EXPECT_THROW(advise(c, question(std::numeric_limits<std::uint64_t>::max())), Error);
  EXPECT_THROW(advise(c, question(0)), Error);
  EXPECT_NE(advise(c, question(kLongestCompared)).pick(), nullptr) << "within a few seconds";
  AdviceQuestion wide = question(4096);
  wide.settings.heads = 1;
  wide.settings.d_model = 1U << 14U;
  wide.settings.batch = 64;
  EXPECT_NE(advise(c, wide).pick(), nullptr);
}

TEST(Advice, SaysHowFarItIs) {
  std::size_t heard = 0;
  advise(ideal(), question(64), [&](std::size_t index, std::size_t count, const std::string& name) {
    EXPECT_LT(index, count);
    EXPECT_FALSE(name.empty());
    ++heard;
  });
  EXPECT_GE(heard, advised_settings().size());
}

TEST(Advice, PrefersExactAttentionWhereItIsAsFast) {
  AdviceQuestion q = question(8);
  q.settings.bare = true;
  const Advice advice = advise(ideal(), q);
  ASSERT_NE(advice.pick(), nullptr);
  EXPECT_EQ(advice.pick()->attention, "flash");
}

TEST(Advice, ConstraintsRuleOut) {
  const Calibration c = ideal();
  AdviceQuestion q = question(256);
  q.error = 1e-3;
  const Advice exact = advise(c, q);
  ASSERT_NE(exact.pick(), nullptr);
  EXPECT_LE(*exact.pick()->error, 1e-3);
  EXPECT_FALSE(exact.find("linear")->refused.empty());
  q.error = 0.0;
  ASSERT_NE(advise(c, q).pick(), nullptr);
  EXPECT_TRUE(advise(c, q).pick()->exact) << "what is exact errs by rounding alone";
  q = question(256);
  q.memory = 1.0;
  EXPECT_EQ(advise(c, q).pick(), nullptr);
  q = question(64);
  q.settings.causal = true;
  EXPECT_NE(advise(c, q).find("linformer")->refused, "");
}

TEST(Advice, SaysWhatIsGivenUp) {
  for (const Mechanism& m : mechanisms()) {
    EXPECT_EQ(given_up(m.name) == "nothing: it is exact", m.abilities("").exact) << m.name;
  }
  EXPECT_NE(given_up("window:window=64"), given_up("linear"));
}

}  // namespace advice_test
}  // namespace longspan
