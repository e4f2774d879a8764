#include "longspan/learning/divergence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace longspan {
namespace divergence_test {

constexpr float kHuge = 3e38F;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

ModelConfig tiny() {
  ModelConfig c;
  c.layers = 3;
  c.d_model = 16;
  c.heads = 2;
  c.vocab = 11;
  c.max_length = 8;
  return c;
}

struct Diverging {
  explicit Diverging(const ModelConfig& config) : model(config) {
    model.allocate(3);
    TrainConfig train;
    train.clip = 0.0F;
    trainer.emplace(model, train);
    for (std::int32_t i = 0; i < 24; ++i) tokens.push_back(i % 11);
    batch = {.batch = 3, .length = 8, .tokens = tokens, .targets = tokens};
  }
  std::span<float> weights(std::string_view name) { return model.parameters().find(name)->value; }
  Divergence found() {
    const StepReport report = trainer->step({&batch, 1});
    EXPECT_FALSE(report.finite);
    return find_divergence(model, report, {&batch, 1});
  }

  Model model;
  std::optional<Trainer> trainer;
  std::vector<std::int32_t> tokens;
  Batch batch;
};

TEST(Divergence, NamesTheFirstWeight) {
  Diverging run(tiny());
  EXPECT_FALSE(diverged_weights(run.model, 7));
  run.weights("decoder.2.attention.qkv.weight")[5] = kNan;
  run.weights("decoder.1.attention.qkv.weight")[70] = std::numeric_limits<float>::infinity();
  const Divergence found = run.found();
  EXPECT_EQ(found.in, NotFinite::kWeight);
  EXPECT_EQ(found.step, 1U);
  EXPECT_EQ(found.text(), "the weight decoder.1.attention.qkv.weight is not finite");
  EXPECT_EQ(diverged_weights(run.model, 7)->step, 7U);
}

// Weights that are numbers, and outputs that are too large to be any.
TEST(Divergence, NamesTheFirstLayerOfALoss) {
  for (const char* wiring : {"pre", "post", "reversible"}) {
    ModelConfig config = tiny();
    config.wiring = wiring;
    Diverging run(config);
    std::ranges::fill(run.weights("decoder.1.feed_forward.in.bias"), 10.0F);
    std::ranges::fill(run.weights("decoder.1.feed_forward.out.weight"), kHuge);
    std::ranges::fill(run.weights("decoder.2.attention.qkv.weight"), kHuge);
    const Divergence found = run.found();
    EXPECT_EQ(found.in, NotFinite::kLoss) << wiring;
    EXPECT_EQ(found.layer, "ffn of block 2") << wiring;
  }
}

TEST(Divergence, NamesTheLayerOfAPerceptron) {
  ModelConfig config;
  config.family = Family::kPerceptron;
  config.head = HeadKind::kClassifier;
  config.layers = 3;
  config.d_model = 8;
  config.inputs = 5;
  config.classes = 4;
  config.max_length = 1;
  Model model(config);
  model.allocate(1);
  const std::vector<float> features(10, 1.0F);
  const std::vector<std::int32_t> classes = {1, 2};
  Batch batch{.batch = 2, .length = 1, .targets = classes};
  batch.features = features;
  EXPECT_EQ(model.first_not_finite(batch), "");
  std::ranges::fill(model.parameters().find("mlp.1.weight")->value, kHuge);
  std::ranges::fill(model.parameters().find("mlp.0.weight")->value, 1.0F);
  EXPECT_EQ(model.first_not_finite(batch), "hidden of block 2");
}

// Backward comes to the last parameters first.
TEST(Divergence, NamesTheFirstGradientOfTheWayBack) {
  Diverging run(tiny());
  run.trainer->step({&run.batch, 1});
  run.model.parameters().find("decoder.0.attention.qkv.weight")->gradient[3] = kNan;
  run.model.parameters().find("decoder.1.attention.qkv.weight")->gradient[3] = kNan;
  const Divergence found =
      find_divergence(run.model, {.step = 1, .loss = 2.0, .finite = false}, {&run.batch, 1});
  EXPECT_EQ(found.in, NotFinite::kGradient);
  EXPECT_EQ(found.step, 2U);
  EXPECT_EQ(found.text(), "the gradient of decoder.1.attention.qkv.weight is not finite");
}

TEST(Trainer, SaysWhenTheWeightsAreProven) {
  Diverging run(tiny());
  int proven = 0;
  const auto count = [&] {
    ++proven;
    EXPECT_EQ(run.trainer->steps(), 0U) << "before the update";
  };
  run.trainer->step({&run.batch, 1}, {}, count);
  EXPECT_EQ(proven, 1);
  run.weights("decoder.1.attention.qkv.weight")[0] = kNan;
  run.trainer->step({&run.batch, 1}, {}, count);
  EXPECT_EQ(proven, 1);
}

}  // namespace divergence_test
}  // namespace longspan
