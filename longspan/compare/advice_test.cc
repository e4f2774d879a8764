#include "longspan/compare/advice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>

#include "longspan/attention/registry.h"
#include "longspan/base/error.h"
#include "longspan/compare/compare_plan.h"
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
    const Batch shape{.batch = 1, .length = 64};
    for (const auto& operations :
         {forward_operations(model, shape), step_operations(model, shape, OptimizerConfig{})}) {
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

// At every length: nothing that answers is clearly faster than the pick, and nothing that is tied
// with it gives up less.
TEST(Advice, PicksWhatGivesUpLeastOfTheFastest) {
  const Calibration c = ideal();
  std::array<bool, 2> seen{};
  for (const std::uint64_t n : {64, 512, 4096}) {
    const Advice advice = advise(c, question(n));
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

TEST(Advice, SaysWhereTheAnswerChanges) {
  const Calibration c = ideal();
  const AdviceQuestion q = question(2048);
  const Advice advice = advise(c, q);
  ASSERT_FALSE(advice.pick()->exact);
  AdviceQuestion small = question(64);
  const Advice near = advise(c, small);
  if (near.pick()->exact) {
    const auto change = advice_changes(c, small, near, /*longer=*/true);
    ASSERT_TRUE(change.has_value());
    EXPECT_GT(change->length, 64);
  }
  for (const Mechanism& m : mechanisms()) {
    EXPECT_EQ(given_up(m.name) == "nothing: it is exact", m.abilities("").exact) << m.name;
  }
  EXPECT_NE(given_up("window:window=64"), given_up("linear"));
}

}  // namespace advice_test
}  // namespace longspan
