// Mechanisms with buffers of their own: every step of training that moves the weights ends once,
// whatever its rule, wiring and number of batches, and nothing else does.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "longspan/learning/alignment.h"
#include "longspan/learning/trainer.h"
#include "longspan/testing/gated_retention.h"
#include "longspan/testing/reference_cases.h"

namespace longspan {
namespace end_step_test {

using testing::BatchData;
using testing::GatedRetention;

ModelConfig tiny() {
  ModelConfig c;
  c.layers = 2;
  c.d_model = 8;
  c.heads = 2;
  c.vocab = 11;
  c.max_length = 8;
  c.attention = "retention";
  return c;
}

TrainConfig by(std::string_view rule) {
  TrainConfig t;
  t.rule = rule;
  t.schedule = {.kind = "constant", .peak = 0.01F, .floor = 0.0F, .warmup = 0, .total = 10};
  return t;
}

// A model and its trainer, whose steps have batches of 3 × 5 and 2 × 7 tokens.
struct Training {
  ExtraMechanism extra{GatedRetention::mechanism()};
  ModelConfig config;
  BatchData first;
  BatchData second;
  std::vector<Batch> batches;
  Model model;
  Trainer trainer;

  static constexpr std::size_t kTokens = 3 * 5 + 2 * 7;

  explicit Training(const ModelConfig& c, std::string_view rule = "bp")
      : config(c),
        first(c, {.batch = 3, .length = 5}, 1),
        second(c, {.batch = 2, .length = 7}, 2),
        batches{first.view(), second.view()},
        model(c),
        trainer(allocated(model), by(rule)) {}

  static Model& allocated(Model& model) {
    model.allocate(3);
    return model;
  }
  GatedRetention& mechanism(std::size_t layer) {
    return dynamic_cast<GatedRetention&>(model.mechanism(layer));
  }
  std::vector<float> buffer(std::size_t layer) {
    const ConstMatrix mean = mechanism(layer).mean();
    return {mean.data, mean.data + mean.size()};
  }
  void expect(std::size_t steps, std::size_t keys, const std::string& where) {
    for (std::size_t layer = 0; layer < config.layers; ++layer) {
      EXPECT_EQ(mechanism(layer).ends(), steps) << where << ", layer " << layer;
      EXPECT_EQ(mechanism(layer).taken(), keys) << where << ", layer " << layer;
    }
  }
};

TEST(EndStep, ComesOncePerUpdateHoweverManyBatches) {
  Training t(tiny());
  EXPECT_EQ(t.buffer(1), std::vector<float>(8));
  t.trainer.step(std::span(t.batches).first(1));
  t.expect(1, 15, "one batch");
  EXPECT_NE(t.buffer(1), std::vector<float>(8));
  t.trainer.step(t.batches);
  t.expect(2, 15 + Training::kTokens, "two batches");
}

TEST(EndStep, ComesWhateverTheRule) {
  for (const RuleEntry& rule : rules()) {
    Training t(tiny(), rule.name);
    t.trainer.step(t.batches);
    t.expect(1, Training::kTokens, std::string(rule.name));
  }
}

TEST(EndStep, TakesATokenOnceWhereLayersAreComputedAgain) {
  for (const bool checkpointing : {false, true}) {
    for (const char* wiring : {"post", "pre", "reversible"}) {
      ModelConfig c = tiny();
      c.wiring = wiring;
      c.checkpointing = checkpointing && c.wiring != Wiring::kReversible;
      Training t(c);
      t.trainer.step(t.batches);
      t.expect(1, Training::kTokens, wiring);
    }
  }
}

TEST(EndStep, HasNothingOfEvaluationsAndMeasurements) {
  Training t(tiny());
  t.model.logits(t.first.view());
  measure_alignment(t.model, t.trainer.rule(), t.first.view(), 5);
  t.expect(0, 0, "no step");
  t.trainer.step(t.batches);
  t.expect(1, Training::kTokens, "a step after it");
}

// A step that diverged left the weights as they were, and so the buffers; the next begins anew.
TEST(EndStep, DoesNotComeWhereTheStepDiverged) {
  Training t(tiny());
  t.trainer.step(t.batches);
  const std::vector<float> before = t.buffer(0);
  float& weight = t.model.parameters().find("decoder.0.attention.qkv.weight")->value[0];
  const float good = std::exchange(weight, std::numeric_limits<float>::quiet_NaN());
  EXPECT_FALSE(t.trainer.step(t.batches).finite);
  t.expect(1, Training::kTokens, "diverged");
  EXPECT_EQ(t.buffer(0), before);
  weight = good;
  EXPECT_TRUE(t.trainer.step(t.batches).finite);
  t.expect(2, 2 * Training::kTokens, "after it");
  for (const float element : t.buffer(0)) EXPECT_TRUE(std::isfinite(element));
}

// What is not trained keeps its buffers too.
TEST(EndStep, LeavesFrozenLayersAlone) {
  ModelConfig c = tiny();
  c.frozen_layers = 1;
  Training t(c);
  t.trainer.step(t.batches);
  EXPECT_EQ(t.mechanism(0).taken(), 0U);
  EXPECT_EQ(t.buffer(0), std::vector<float>(8));
  EXPECT_EQ(t.mechanism(1).taken(), Training::kTokens);

  ModelConfig adapted = tiny();
  adapted.lora_rank = 2;
  Training u(adapted);
  u.trainer.step(u.batches);
  u.expect(1, 0, "adapters");
}

}  // namespace end_step_test
}  // namespace longspan
