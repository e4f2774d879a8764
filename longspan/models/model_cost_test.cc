// What the meter counts is what cost() says, layer by layer, phase by phase, kind by kind; and what
// cost() says of whole models are the executed formulas, written out as integers.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "longspan/attention/registry.h"
#include "longspan/base/parallel.h"
#include "longspan/models/model.h"
#include "longspan/testing/check_layer.h"
#include "longspan/testing/reference_cases.h"
#include "longspan/testing/test_name.h"

namespace longspan {
namespace model_cost_test {

using testing::BatchData;
using testing::BatchShape;
using testing::expect_same;
using testing::ModelCase;
using Count = std::uint64_t;

void expect_metered(const ModelConfig& config, const BatchShape& shape, RandomKey seed) {
  Model model(config);
  model.allocate(1);
  const BatchData data(config, shape, seed);
  const Batch batch = data.view();
  Meter meter;
  {
    const Meter::Use use(meter);
    model.forward(batch, seed, 1.0F);
    model.backward(batch, 1.0F);
  }
  const CostTable table = model.cost(batch, /*training=*/true);
  std::set<std::string> counted;
  for (const auto& [key, work] : meter.entries()) {
    if (work.flops() > 0) counted.insert(key.layer);
  }
  std::set<std::string> predicted;
  for (const auto& [layer, cost] : table) {
    if ((cost.forward + cost.backward + cost.update).flops() > 0) predicted.insert(layer);
    expect_same(meter.at(layer, Phase::kForward), cost.forward, layer + " forward");
    expect_same(meter.at(layer, Phase::kBackward), cost.backward, layer + " backward");
    expect_same(meter.at(layer, Phase::kUpdate), cost.update, layer + " update");
  }
  EXPECT_EQ(counted, predicted);
  EXPECT_EQ(meter.total(Phase::kOptimizer), Work{});
}

class MeteredModel : public ::testing::TestWithParam<ModelCase> {};

TEST_P(MeteredModel, CountsWhatCostSays) { expect_metered(GetParam().config, GetParam().shape, 3); }

// Random shapes, with and without padding, M above and below N; on one thread, where the test above
// has all of them.
TEST_P(MeteredModel, CountsWhatCostSaysOnRandomShapes) {
  const ModelCase& c = GetParam();
  const RandomKey key = derive(17, c.name);
  const int usual = thread_count();
  set_thread_count(1);
  for (std::uint64_t i = 0; i < 6; ++i) {
    BatchShape shape = c.shape;
    shape.batch = testing::sequences_for(c.config, 1 + random_below(key, 4 * i, 4));
    shape.length = 1 + random_below(key, 4 * i + 1, c.config.max_length);
    if (shape.source_length > 0) {
      shape.source_length = 1 + random_below(key, 4 * i + 2, longest_source(c.config));
    }
    shape.padded = random_below(key, 4 * i + 3, 2) == 1;
    SCOPED_TRACE(fmt::format("batch {} length {} source {} padded {}", shape.batch, shape.length,
                             shape.source_length, shape.padded));
    expect_metered(c.config, shape, i);
  }
  set_thread_count(usual);
}

// Inference does the forward part and nothing else.
TEST_P(MeteredModel, InferenceCountsForwardOnly) {
  const ModelCase& c = GetParam();
  Model model(c.config);
  model.allocate(1);
  const BatchData data(c.config, c.shape, 5);
  Meter meter;
  {
    const Meter::Use use(meter);
    model.evaluate(data.view());
  }
  for (const auto& [layer, cost] : model.cost(data.view(), /*training=*/false)) {
    expect_same(meter.at(layer, Phase::kForward), cost.forward, layer);
  }
  EXPECT_EQ(meter.total(Phase::kBackward), Work{});
  EXPECT_EQ(meter.total(Phase::kUpdate), Work{});
}

INSTANTIATE_TEST_SUITE_P(Cases, MeteredModel, ::testing::ValuesIn(testing::model_cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Released, MeteredModel, ::testing::ValuesIn(testing::released_cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Pairs, MeteredModel, ::testing::ValuesIn(testing::pair_cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Perceptrons, MeteredModel,
                         ::testing::ValuesIn(testing::perceptron_cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Frozen, MeteredModel, ::testing::ValuesIn(testing::frozen_cases()),
                         [](const auto& instance) { return instance.param.name; });

// Whatever the registry holds, in every wiring and family that it can serve.
class MeteredMechanism : public ::testing::TestWithParam<Mechanism> {};

TEST_P(MeteredMechanism, CountsWhatCostSaysInEveryModel) {
  const Abilities able = GetParam().abilities("");
  const RandomKey key = derive(23, GetParam().name);
  std::uint64_t draw = 0;
  const auto below = [&](std::size_t n) { return random_below(key, draw++, n); };
  for (const ModelConfig& c : testing::models_around(GetParam())) {
    BatchShape shape;
    shape.batch = 1 + below(3);
    shape.length = 1 + below(c.max_length);
    shape.source_length = c.family == Family::kEncoderDecoder ? 1 + below(c.max_length) : 0;
    shape.padded = able.key_lengths && below(2) == 1;
    SCOPED_TRACE(fmt::format("{} {}: batch {} length {} source {} padded {}", c.family, c.wiring,
                             shape.batch, shape.length, shape.source_length, shape.padded));
    expect_metered(c, shape, draw);
    Model model(c);
    model.allocate(1);
    const BatchData data(c, shape, 3);
    const std::size_t predicted = model.training_bytes(data.view());
    model.forward(data.view(), 1, 1.0F);
    model.backward(data.view(), 1.0F);
    EXPECT_EQ(model.arena().peak(), predicted);
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, MeteredMechanism,
                         ::testing::ValuesIn(mechanisms().begin(), mechanisms().end()),
                         [](const auto& instance) {
                           return testing::test_name(instance.param.name);
                         });

Work sum(const CostTable& table, Work Cost::*phase) {
  Work total;
  for (const auto& [layer, cost] : table) total += cost.*phase;
  return total;
}

// One encoder block, v = 1000, d = 64, h = 4, f = 256, M = N = 128: the numbers of the worked
// example, less MHA biases, which it does not have.
TEST(Executed, OneEncoderBlock) {
  ModelConfig c;
  c.family = Family::kEncoder;
  c.layers = 1;
  c.d_model = 64;
  c.heads = 4;
  c.d_ff = 256;
  c.vocab = 1000;
  c.max_length = 128;
  c.wiring = Wiring::kPostNorm;
  c.positions = PositionKind::kSinusoidal;
  c.attention = "full";
  c.tied = false;
  const Model model(c);
  const CostTable table = model.cost({.batch = 1, .length = 128}, true);
  const Count mha_biases = 4 * 128 * 64;
  const Cost& mha = table.at("mha");
  EXPECT_EQ(mha.forward.maccs, 4194304U);
  EXPECT_EQ(mha.forward.flops() - mha_biases, 8724480U);
  EXPECT_EQ(mha.backward.maccs, 6291456U);
  EXPECT_EQ(mha.backward.flops(), 12853248U);
  EXPECT_EQ(mha.update.maccs, 2097152U);
  EXPECT_EQ(mha.update.flops() - mha_biases, 4194304U);
  EXPECT_EQ(table.at("embedding").forward.flops(), 8192U);
  EXPECT_EQ(table.at("embedding").backward.flops(), 0U);
  EXPECT_EQ(table.at("embedding").update.flops(), 8192U);
  EXPECT_EQ(table.at("add & norm").forward.flops(), 132352U);
  EXPECT_EQ(table.at("add & norm").backward.flops(), 147968U);
  EXPECT_EQ(table.at("add & norm").update.flops(), 49152U);
  EXPECT_EQ(table.at("ffn").forward.flops(), 8691712U);
  EXPECT_EQ(table.at("ffn").backward.flops(), 8847360U);
  EXPECT_EQ(table.at("ffn").update.flops(), 8429568U);
  EXPECT_EQ(table.at("softmax layer").forward.flops(), 17024000U);
  EXPECT_EQ(table.at("softmax layer").backward.flops(), 16384128U);
  EXPECT_EQ(table.at("softmax layer").update.flops(), 16384000U);
  EXPECT_EQ(sum(table, &Cost::forward).maccs, 16580608U);
  EXPECT_EQ(sum(table, &Cost::backward).maccs, 18677760U);
  EXPECT_EQ(sum(table, &Cost::update).maccs, 14483456U);
}

// Encoder–decoder without biases, M decoder and N encoder tokens, batch b.
TEST(Executed, EncoderDecoder) {
  const Count b = 3;
  const Count M = 5;
  const Count N = 11;
  const Count d = 12;
  const Count h = 3;
  const Count f = 7;
  const Count v = 19;
  ModelConfig c;
  c.family = Family::kEncoderDecoder;
  c.layers = 2;
  c.decoder_layers = 4;
  c.d_model = d;
  c.heads = h;
  c.d_ff = f;
  c.vocab = v;
  c.max_length = 16;
  c.wiring = Wiring::kPostNorm;
  c.attention = "full";
  c.bias = false;
  const Model model(c);
  const CostTable table = model.cost({.batch = b, .length = M, .source_length = N}, true);
  // Self-attention of two encoder and four decoder layers; `full` computes masked pairs too.
  const Count pairs = 2 * N * N + 4 * M * M;
  const Count tokens = 2 * N + 4 * M;
  const Cost& mha = table.at("mha");
  EXPECT_EQ(mha.forward.maccs, b * (4 * tokens * d * d + 2 * pairs * d));
  EXPECT_EQ(mha.forward.other_flops(), b * (5 * pairs * h + tokens * d));
  EXPECT_EQ(mha.backward.maccs, b * (4 * tokens * d * d + 4 * pairs * d));
  EXPECT_EQ(mha.backward.other_flops(), b * (4 * pairs * h + tokens * d));
  EXPECT_EQ(mha.update.maccs, b * 4 * tokens * d * d);
  EXPECT_EQ(mha.update.other_flops(), 0U);
  const Cost& cross = table.at("cross");
  const Count cross_projections = 4 * (2 * M * d * d + 2 * N * d * d);
  EXPECT_EQ(cross.forward.maccs, b * (cross_projections + 4 * 2 * M * N * d));
  EXPECT_EQ(cross.forward.other_flops(), b * 4 * (5 * M * N * h + M * d));
  EXPECT_EQ(cross.backward.maccs, b * (cross_projections + 4 * 4 * M * N * d));
  EXPECT_EQ(cross.backward.other_flops(), b * 4 * (4 * M * N * h + M * d));
  EXPECT_EQ(cross.update.maccs, b * cross_projections);
  EXPECT_EQ(cross.update.other_flops(), 0U);
  const Cost& ffn = table.at("ffn");
  const Count rows = b * (2 * N + 4 * M);
  EXPECT_EQ(ffn.forward.maccs, 2 * rows * d * f);
  EXPECT_EQ(ffn.forward.other_flops(), 8 * rows * f);
  EXPECT_EQ(ffn.backward.other_flops(), 14 * rows * f);
  EXPECT_EQ(ffn.update.other_flops(), 0U);
  const Cost& norm = table.at("add & norm");
  const Count norms = b * (2 * 2 * N + 3 * 4 * M);
  EXPECT_EQ(norm.forward.flops(), norms * (8 * d + 5));
  EXPECT_EQ(norm.backward.flops(), norms * (9 * d + 2));
  EXPECT_EQ(norm.update.flops(), norms * 3 * d);
  EXPECT_EQ(table.at("embedding").forward.flops(), b * (M + N) * d);
  EXPECT_EQ(table.at("embedding").update.flops(), 2 * b * (M + N) * d) << "learned positions";
  const Cost& softmax = table.at("softmax layer");
  EXPECT_EQ(softmax.forward.maccs, b * M * d * v);
  EXPECT_EQ(softmax.forward.other_flops(), 5 * b * M * v);
  EXPECT_EQ(softmax.backward.maccs, b * M * d * v);
  EXPECT_EQ(softmax.backward.other_flops(), b * M);
  EXPECT_EQ(softmax.update.maccs, b * M * d * v);
  EXPECT_EQ(softmax.update.other_flops(), 0U);
  EXPECT_EQ(table.size(), 6U) << "and nothing else";
}

// Of 6 experts a token goes to 2, and to the shared one; the first layer is dense.
TEST(UsedParameters, LeaveOutExpertsThatATokenDoesNotGoTo) {
  ModelConfig c;
  c.layers = 3;
  c.d_model = 8;
  c.heads = 2;
  c.gated = true;
  EXPECT_EQ(Model(c).used_parameters(), Model(c).parameters().total());
  c.feed_forward =
      "dense|experts:experts=6,top=2,width=5,shared=10|experts:experts=4,top=3,width=7";
  const auto expert = [](std::size_t f) { return 8 * 2 * f + 2 * f + f * 8 + 8; };
  EXPECT_EQ(Model(c).parameters().total() - Model(c).used_parameters(), 4 * expert(5) + expert(7));
  c.feed_forward = "experts:experts=6,top=2,width=5";
  c.shared_layers = true;
  EXPECT_EQ(Model(c).parameters().total() - Model(c).used_parameters(), 4 * expert(5));
}

}  // namespace model_cost_test
}  // namespace longspan
