#include "longspan/compare/advice.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "longspan/attention/registry.h"
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

TEST(Advice, PicksTheFastestThatAnswers) {
  const Calibration c = ideal();
  const Advice advice = advise(c, question(4096));
  ASSERT_NE(advice.pick(), nullptr);
  EXPECT_FALSE(advice.pick()->exact);
  const double seconds = *advice.pick()->prediction.time.predicted;
  for (const AdviceCandidate& other : advice.candidates) {
    if (!other.refused.empty()) continue;
    EXPECT_LE(seconds, *other.prediction.time.predicted) << other.attention;
  }
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
