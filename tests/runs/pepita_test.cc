// PEPITA and MEMPEPITA: what they count and take is what was predicted, and they agree bit for bit.
#include "longspan/learning/pepita.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "longspan/attention/registry.h"
#include "longspan/base/parallel.h"
#include "longspan/cost/memory_use.h"
#include "longspan/learning/trainer.h"
#include "longspan/testing/reference_cases.h"
#include "longspan/testing/test_name.h"

namespace longspan {
namespace pepita_test {

using testing::BatchData;
using testing::BatchShape;
using testing::expect_same;
using testing::ModelCase;

constexpr std::array kForwardRules = {"pepita", "mempepita"};

// Every choice, combined so that each value of one meets several of the others.
std::vector<Feedback> feedbacks() {
  return {{},
          {.last_layer = "difference", .error_space = "model", .scale = 0.3F},
          {.last_layer = "standard", .injection = "embedding"},
          {.last_layer = "difference", .injection = "embedding", .error_space = "model"},
          {.last_layer = "standard",
           .error_space = "model",
           .branch_signal = "sum",
           .learners = "stream",
           .scale = -1.0F}};
}

// One step's gradients, with everything that is predicted of it checked.
std::vector<float> checked_gradients(const ModelConfig& config, const Batch& batch,
                                     const char* name, const Feedback& feedback) {
  SCOPED_TRACE(fmt::format("{}: {} {} {}", name, feedback.last_layer, feedback.injection,
                           feedback.error_space));
  Model model(config);
  model.allocate(1);
  const std::unique_ptr<Rule> rule = make_rule(name, model, feedback, 5);
  Meter meter;
  {
    const Meter::Use use(meter);
    rule->accumulate(batch, 7, 0.25F);
  }
  EXPECT_EQ(model.arena().peak(), rule->walk(batch).peak);
  EXPECT_EQ(model.arena().capacity(), rule->walk(batch).peak);
  std::set<std::string> counted;
  for (const auto& [key, work] : meter.entries()) {
    if (work.flops() > 0) counted.insert(key.layer);
  }
  std::set<std::string> predicted;
  for (const auto& [layer, cost] : rule->cost(batch)) {
    if ((cost.forward + cost.update).flops() > 0) predicted.insert(layer);
    expect_same(meter.at(layer, Phase::kForward), cost.forward, layer + " forward");
    expect_same(meter.at(layer, Phase::kUpdate), cost.update, layer + " update");
  }
  EXPECT_EQ(counted, predicted);
  EXPECT_EQ(meter.total(Phase::kBackward), Work{});
  const auto gradients = model.parameters().gradients();
  return {gradients.begin(), gradients.end()};
}

void check_everything(const ModelConfig& config, const Batch& batch) {
  for (const Feedback& feedback : feedbacks()) {
    const auto kept = checked_gradients(config, batch, "pepita", feedback);
    const auto computed = checked_gradients(config, batch, "mempepita", feedback);
    EXPECT_EQ(kept, computed) << feedback.last_layer;
    // Where all but a norm is frozen, the residual stream has no learner.
    EXPECT_TRUE(feedback.learners == "stream" ||
                std::ranges::any_of(kept, [](float g) { return g != 0.0F; }));
  }
}

class ForwardModel : public ::testing::TestWithParam<ModelCase> {};

TEST_P(ForwardModel, CountsAndTakesWhatWasPredictedAndBothRulesAgree) {
  const BatchData data(GetParam().config, GetParam().shape, 3);
  check_everything(GetParam().config, data.view());
}

// Shared masks: the passes differ by the error alone, and without one nothing hidden learns.
TEST_P(ForwardModel, WithoutFeedbackOnlyTheLastLayerLearns) {
  const BatchData data(GetParam().config, GetParam().shape, 3);
  for (const char* name : kForwardRules) {
    for (const char* last : {"modulated", "difference", "standard"}) {
      Model model(GetParam().config);
      model.allocate(1);
      const Feedback feedback{.last_layer = last, .scale = 0.0F};
      make_rule(name, model, feedback)->accumulate(data.view(), 7, 0.25F);
      const bool tied = model.config().tied && model.config().head == HeadKind::kLanguage;
      for (const Parameter& p : model.parameters().all()) {
        const bool output =
            p.name.starts_with("head.output") || (tied && p.name.ends_with(".tokens"));
        if (p.constant || (output && std::string_view(last) != "difference")) continue;
        EXPECT_TRUE(std::ranges::all_of(p.gradient, [](float g) { return g == 0.0F; }))
            << name << ' ' << last << ' ' << p.name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ForwardModel, ::testing::ValuesIn(testing::model_cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Perceptrons, ForwardModel,
                         ::testing::ValuesIn(testing::perceptron_cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Frozen, ForwardModel, ::testing::ValuesIn(testing::frozen_cases()),
                         [](const auto& instance) { return instance.param.name; });

class ForwardMechanism : public ::testing::TestWithParam<Mechanism> {};

TEST_P(ForwardMechanism, IsRightInEveryFamilyAndWiring) {
  const Abilities able = GetParam().abilities("");
  for (ModelConfig c : testing::models_around(GetParam())) {
    c.dropout = able.dropout ? 0.1F : 0.0F;
    const BatchShape shape{
        .batch = 2,
        .length = 67,
        .source_length = c.family == Family::kEncoderDecoder ? std::size_t{35} : 0,
        .padded = able.key_lengths};
    SCOPED_TRACE(fmt::format("{} {}", c.family, c.wiring));
    const BatchData data(c, shape, 3);
    const Feedback feedback{.error_space = c.wiring == Wiring::kPreNorm ? "model" : "vocabulary"};
    const auto kept = checked_gradients(c, data.view(), "pepita", feedback);
    EXPECT_EQ(kept, checked_gradients(c, data.view(), "mempepita", feedback));
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, ForwardMechanism,
                         ::testing::ValuesIn(mechanisms().begin(), mechanisms().end()),
                         [](const auto& instance) {
                           return testing::test_name(instance.param.name);
                         });

// A mechanism's own parameters learn too.
TEST(ForwardMechanism, OwnParametersLearn) {
  for (const char* attention : {"linformer:k=8", "linformer:k=200", "memory-compressed", "memory",
                                "longformer", "deberta", "transformer-xl"}) {
    ModelConfig c;
    c.family = Family::kEncoder;
    c.layers = 2;
    c.d_model = 24;
    c.heads = 3;
    c.vocab = 19;
    c.max_length = 70;
    c.attention = attention;
    Model model(c);
    model.allocate(1);
    const BatchData data(c, {.batch = 2, .length = 67}, 3);
    make_rule("pepita", model)->accumulate(data.view(), 7, 0.25F);
    for (const Parameter& p : model.parameters().all()) {
      if (p.constant) continue;
      EXPECT_TRUE(std::ranges::any_of(p.gradient, [](float g) { return g != 0.0F; }))
          << attention << ' ' << p.name;
    }
  }
}

// The weights after several steps with momentum and Adam, micro-batches and clipping.
std::vector<float> trained(ModelConfig config, const char* rule, const char* optimizer,
                           int threads) {
  const int usual = thread_count();
  set_thread_count(threads);
  Model model(config);
  model.allocate(3);
  TrainConfig t;
  t.rule = rule;
  t.optimizer.kind = optimizer;
  t.schedule = {.kind = "constant", .peak = 1e-2F, .floor = 0.0F, .warmup = 0, .total = 10};
  Trainer trainer(model, t);
  const bool both = config.family == Family::kEncoderDecoder;
  for (std::uint64_t step = 0; step < 4; ++step) {
    const BatchShape shape{.batch = 3, .length = 33, .source_length = both ? std::size_t{40} : 0};
    const BatchData a(config, shape, 2 * step);
    const BatchData b(config, shape, 2 * step + 1);
    const std::vector<Batch> batches = {a.view(), b.view()};
    EXPECT_TRUE(trainer.step(batches).finite);
  }
  set_thread_count(usual);
  const auto values = model.parameters().values();
  return {values.begin(), values.end()};
}

TEST(Mempepita, WeightsEqualPepitasBitForBitAfterSteps) {
  for (const Family family : {Family::kEncoder, Family::kDecoder, Family::kEncoderDecoder}) {
    for (const std::string attention :
         {"flash", "full", "performer", "linear", "bigbird", "reformer"}) {
      const Abilities able = abilities_of(attention);
      if (family == Family::kDecoder && !able.causal) continue;
      ModelConfig c;
      c.family = family;
      c.layers = 2;
      c.decoder_layers = family == Family::kEncoderDecoder ? 2 : 0;
      c.d_model = 24;
      c.heads = 2;
      c.vocab = 17;
      c.max_length = 64;
      c.attention = attention;
      if (!able.causal) c.decoder_attention = "flash";
      if (!able.cross) c.cross_attention = "flash";
      c.dropout = able.dropout ? 0.1F : 0.0F;
      SCOPED_TRACE(fmt::format("{} {}", c.family, attention));
      const char* optimizer = attention == "full"     ? "adam"
                              : attention == "linear" ? "sgd"
                                                      : "momentum";
      const std::vector<float> once = trained(c, "pepita", optimizer, 1);
      EXPECT_EQ(once, trained(c, "mempepita", optimizer, 1));
      EXPECT_EQ(once, trained(c, "pepita", optimizer, 3)) << "threads";
      EXPECT_NE(once, trained(c, "bp", optimizer, 1));
    }
  }
}

std::size_t arena_of(const char* rule, std::size_t layers, const ModelConfig& config) {
  ModelConfig c = config;
  c.layers = layers;
  if (c.family == Family::kEncoderDecoder) c.decoder_layers = layers;
  Model model(c);
  model.allocate(1);
  const std::unique_ptr<Rule> learning = make_rule(rule, model);
  const BatchData data(c,
                       {.batch = 2,
                        .length = c.family == Family::kPerceptron ? std::size_t{1} : 33,
                        .source_length = 20},
                       1);
  learning->accumulate(data.view(), 1, 1.0F);
  return model.arena().peak();
}

TEST(Mempepita, MemoryDoesNotGrowWithDepth) {
  std::vector<ModelConfig> configs = {testing::perceptron_cases().front().config};
  for (const char* family : {"encoder", "decoder", "encoder-decoder"}) {
    for (const char* wiring : {"pre", "post", "reversible"}) {
      ModelConfig c;
      c.family = family;
      c.wiring = wiring;
      c.d_model = 24;
      c.heads = 2;
      c.vocab = 17;
      c.dropout = 0.1F;
      configs.push_back(c);
    }
  }
  for (const ModelConfig& c : configs) {
    const std::size_t two = arena_of("mempepita", 2, c);
    EXPECT_EQ(two, arena_of("mempepita", 8, c)) << c.family << ' ' << c.wiring;
    EXPECT_EQ(two, arena_of("mempepita", 32, c)) << c.family << ' ' << c.wiring;
    EXPECT_GT(arena_of("pepita", 8, c), arena_of("pepita", 2, c)) << c.family << ' ' << c.wiring;
  }
}

// What `cost` says of a model is what the rules take, at any depth.
TEST(Cost, PredictsTheMemoryOfEveryRule) {
  Integer mempepita = 0;
  for (const std::size_t layers : {2, 8, 32}) {
    Workload w;
    w.model.layers = layers;
    w.model.d_model = 24;
    w.model.heads = 2;
    w.model.vocab = 17;
    w.batch = 2;
    w.length = 33;
    Model model(w.model);
    model.allocate(1);
    const BatchData data(w.model, {.batch = 2, .length = 33}, 1);
    const ParameterCounts parameters = count_parameters(w, model);
    const RuleTerms terms{.last_layer = LastLayer::kModulatedError};
    for (const LearningRule rule : kLearningRules) {
      const MemoryUse use =
          memory_use(w, model, parameters, element_type("fp32"), OptimizerKind::kSgd, rule, terms);
      make_rule(name_of(rule), model)->accumulate(data.view(), 1, 1.0F);
      EXPECT_EQ(use.peak, static_cast<Integer>(model.arena().peak())) << name_of(rule);
      if (rule != LearningRule::kMempepita) continue;
      EXPECT_TRUE(mempepita == 0 || use.peak == mempepita) << layers;
      mempepita = use.peak;
    }
  }
}

// MEMPEPITA/PEPITA = 4/3 in the products of weights, passes and update together.
TEST(Mempepita, TakesAThirdMoreProductsOfWeights) {
  ModelConfig c;
  c.layers = 3;
  c.attention = "full";
  const Model model(c);
  const Batch shape{.batch = 2, .length = 64};
  const auto products = [&](Recall recall) {
    Meter meter;
    const Meter::Use use(meter);
    ForwardLearning(model, recall, {}, 1).walk(shape);
    const CostTable table = cost_of(meter);
    return table.at("ffn").forward.maccs + table.at("ffn").update.maccs;
  };
  EXPECT_EQ(3 * products(Recall::kCompute), 4 * products(Recall::kKeep));
}

}  // namespace pepita_test
}  // namespace longspan
