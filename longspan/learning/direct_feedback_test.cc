// Direct feedback alignment: inside a block it is backpropagation, and no block hears of another.
#include "longspan/learning/direct_feedback.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/learning/backprop.h"
#include "longspan/learning/trainer.h"
#include "longspan/testing/reference_cases.h"

namespace longspan {
namespace direct_feedback_test {

using testing::BatchData;
using testing::BatchShape;

ModelConfig small(const char* family) {
  ModelConfig c;
  c.family = family;
  c.layers = 1;
  c.d_model = 24;
  c.heads = 2;
  c.vocab = 17;
  c.max_length = 16;
  c.wiring = Wiring::kPostNorm;
  return c;
}

ModelConfig perceptron(std::size_t layers) {
  ModelConfig c = small("mlp");
  c.head = HeadKind::kClassifier;
  c.layers = layers;
  c.inputs = 11;
  c.classes = 5;
  c.dropout = 0.2F;
  return c;
}

void expect_gradients(Model& model, Rule& rule, const Batch& batch,
                      bool (*same)(const Parameter&)) {
  const auto gradients = model.parameters().gradients();
  const auto step = [&](Rule& by) {
    std::ranges::fill(gradients, 0.0F);
    by.accumulate(batch, 7, 0.25F);
  };
  Backprop exact(model);
  step(exact);
  const std::vector<float> want(gradients.begin(), gradients.end());
  step(rule);
  for (const Parameter& p : model.parameters().all()) {
    if (p.constant) continue;
    const float* const first = want.data() + (p.gradient.data() - gradients.data());
    EXPECT_EQ(std::equal(p.gradient.begin(), p.gradient.end(), first), same(p)) << p.name;
  }
}

// B of the last block as the weights of the last layer.
void send_exactly(Model& model, const DirectFeedback& rule) {
  const Matrix b = rule.projection(model.config().layers - 1);
  std::ranges::copy(model.head().output().weight().value, b.data);
}

TEST(DirectFeedback, OfOneBlockThroughTheLastWeightsIsBackpropagation) {
  ModelConfig padded = small("encoder");
  padded.head = HeadKind::kClassifier;
  padded.classes = 5;
  padded.pool = Pool::kMean;
  ModelConfig checkpointed = small("decoder");
  checkpointed.checkpointing = true;
  checkpointed.dropout = 0.1F;
  ModelConfig untied = small("encoder");
  untied.tied = false;
  untied.embedding_norm = true;
  ModelConfig pre = small("decoder");
  pre.wiring = Wiring::kPreNorm;
  pre.norm = NormKind::kRms;
  for (const ModelConfig& c :
       {pre, small("decoder"), untied, padded, checkpointed, perceptron(1)}) {
    SCOPED_TRACE(fmt::format("{} {}", c.family, c.head));
    const bool tokens = c.family != Family::kPerceptron;
    const BatchData data(c, {.batch = 3, .length = tokens ? std::size_t{13} : 1, .padded = tokens},
                         3);
    Model model(c);
    model.allocate(1);
    DirectFeedback rule(model, 5);
    send_exactly(model, rule);
    expect_gradients(model, rule, data.view(), [](const Parameter&) { return true; });
  }
}

// The exact signal reaches the last block and none before it.
TEST(DirectFeedback, EndsAtTheBlocksOwnInput) {
  ModelConfig c = small("decoder");
  c.layers = 3;
  c.tied = false;
  ModelConfig pre = c;
  pre.wiring = Wiring::kPreNorm;
  for (const ModelConfig& config : {c, pre, perceptron(3)}) {
    Model model(config);
    model.allocate(1);
    DirectFeedback rule(model, 5);
    send_exactly(model, rule);
    const bool tokens = config.family != Family::kPerceptron;
    const BatchData data(config, {.batch = 3, .length = tokens ? std::size_t{13} : 1}, 3);
    expect_gradients(model, rule, data.view(), [](const Parameter& p) {
      const bool final_norm = p.role == Role::kNorm && !p.place.block;
      return final_norm || p.role == Role::kLastLayer || p.place.block == std::size_t{2};
    });
  }
}

TEST(DirectFeedback, CostsAProductForEveryTrainedBlock) {
  ModelConfig c = small("decoder");
  c.layers = 4;
  c.frozen_layers = 1;
  Model model(c);
  const Batch shape{.batch = 3, .length = 13};
  const DirectFeedback rule(model, 5);
  EXPECT_EQ(rule.own_floats(), 3 * c.vocab * c.d_model);
  const CostTable own = rule.cost(shape);
  EXPECT_EQ(own.find(kOverheadMeter)->second.update.maccs, 3 * 39 * c.vocab * c.d_model);
  CostTable rest = own;
  rest.erase(std::string(kOverheadMeter));
  EXPECT_EQ(rest, Backprop(model).cost(shape));
}

TEST(DirectFeedback, NeedsNoBackwardBetweenTheLayersOfAPerceptron) {
  Model model(perceptron(3));
  const Batch shape{.batch = 8, .length = 1};
  EXPECT_EQ(DirectFeedback(model, 5).cost(shape)["hidden"].backward.maccs, 0U);
  EXPECT_GT(Backprop(model).cost(shape)["hidden"].backward.maccs, 0U);
}

TEST(DirectFeedback, RefusesWhatHasNoBlocksOfItsOwn) {
  const auto error_of = [](const ModelConfig& c) -> std::string {
    Model model(c);
    try {
      DirectFeedback(model, 1);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  ModelConfig both = small("encoder-decoder");
  both.decoder_layers = 1;
  EXPECT_EQ(
      error_of(both),
      "[dfa] a decoder's error has no place in the encoder's sequence; need one stack, or the "
      "rule bp or fa");
  ModelConfig reversible = small("decoder");
  reversible.wiring = Wiring::kReversible;
  EXPECT_EQ(error_of(reversible),
            "[dfa] the streams of reversible layers have no output of a block; need pre or post "
            "wiring, or the rule bp or fa");
  ModelConfig experts = small("decoder");
  experts.feed_forward = "experts";
  EXPECT_EQ(error_of(experts),
            "[dfa] experts have a loss beside the output's; need the rule bp or fa");
  ModelConfig pairs = small("encoder");
  pairs.head = HeadKind::kPairs;
  pairs.classes = 2;
  EXPECT_EQ(
      error_of(pairs),
      "[dfa] the error of a pair belongs to neither of its sequences; need the rule bp or fa");
}

}  // namespace direct_feedback_test
}  // namespace longspan
