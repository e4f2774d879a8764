#include "longspan/models/stages.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longspan/base/error.h"
#include "longspan/base/meter.h"
#include "longspan/models/model.h"
#include "longspan/testing/check_layer.h"
#include "longspan/testing/executed_formula.h"
#include "longspan/testing/model_samples.h"
#include "longspan/testing/reference_cases.h"

namespace longspan {
namespace stages_test {

using testing::BatchData;
using testing::BatchShape;

TEST(Stages, KnowWhereALayerStands) {
  const Stages stages({.layers = {2, 1, 2}}, 7);
  using Entry = Stages::Entry;
  const std::vector<std::size_t> stage = {0, 0, 1, 2, 2, 3, 3};
  const std::vector<Entry> entry = {Entry::kNone, Entry::kNone,   Entry::kPool, Entry::kPool,
                                    Entry::kNone, Entry::kRepeat, Entry::kNone};
  // A first layer reads the keys of the stage before.
  const std::vector<std::size_t> step = {1, 1, 1, 2, 4, 1, 1};
  for (std::size_t i = 0; i < stage.size(); ++i) {
    EXPECT_EQ(stages.stage(i), stage[i]);
    EXPECT_EQ(stages.entry(i), entry[i]);
    EXPECT_EQ(stages.step(i), step[i]);
  }
  EXPECT_EQ(Stages({.layers = {2, 1, 2}, .unpooled_keys = false}, 7).step(3), 4U);
  EXPECT_FALSE(Stages({}, 7).active());
  EXPECT_THROW(Stages({.layers = {2, 1}}, 3), Error);
  EXPECT_THROW(Stages({.layers = {2}}, 3), Error);
}

TEST(Stages, CutLengthsAndTypes) {
  const Stages stages({.layers = {1, 1, 1}}, 4);
  const std::vector<std::int32_t> lengths = {12, 7};
  std::vector<std::int32_t> types(24);
  for (std::size_t i = 0; i < types.size(); ++i) types[i] = static_cast<std::int32_t>(i);
  Pass pass;
  pass.batch = 2;
  pass.length = 12;
  pass.lengths = lengths;
  pass.token_types = types;
  Arena arena(1 << 10U);
  StageRun run;
  stages.begin(pass, arena, run);
  ASSERT_EQ(run.passes.size(), 4U);
  const std::vector<std::size_t> rows = {12, 6, 3, 12};
  for (std::size_t s = 0; s < 4; ++s) EXPECT_EQ(run.passes[s].length, rows[s]);
  // The pairs (1, 2), (3, 4), (5, 6) of the second sequence are real, and of those the first.
  EXPECT_EQ(run.passes[1].lengths[0], 6);
  EXPECT_EQ(run.passes[1].lengths[1], 4);
  EXPECT_EQ(run.passes[2].lengths[1], 2);
  EXPECT_EQ(run.passes[3].lengths[1], 7);
  EXPECT_EQ(run.passes[1].token_types[2], 3);
  EXPECT_EQ(run.passes[2].token_types[3 + 2], 12 + 5);
  pass.length = 4;
  EXPECT_THROW(stages.begin(pass, arena, run), Error);
}

// Models with every option.
struct Staged {
  ModelConfig config;
  BatchShape shape;
};

std::vector<Staged> models() {
  ModelConfig c;
  c.family = Family::kEncoder;
  c.wiring = Wiring::kPostNorm;
  c.positions = PositionKind::kNone;
  c.layers = 4;
  c.stages = "1|2";
  c.d_model = 12;
  c.heads = 2;
  c.vocab = 11;
  c.max_length = 21;
  c.attention = "funnel";
  c.init_deviation = 0.3F;
  const BatchShape shape{.batch = 2, .length = 12};
  std::vector<Staged> all = {{c, shape}};
  all.push_back({c, {.batch = 3, .length = 21, .padded = true}});
  c.token_types = 3;
  c.embedding_types = false;
  all.push_back({c, {.batch = 2, .length = 13, .padded = true, .typed = true}});
  c.layers = 5;
  c.stages = "1|1|2";
  c.stage_pool = StagePool::kMax;
  c.stage_truncate = false;
  all.push_back({c, {.batch = 2, .length = 13, .typed = true}});
  c.stage_cls = false;
  c.attention = "funnel:cls=false";
  c.stage_pool = StagePool::kMean;
  all.push_back({c, {.batch = 2, .length = 11, .padded = true, .typed = true}});
  c.unpooled_keys = false;
  all.push_back({c, {.batch = 2, .length = 11, .padded = true}});
  c.attention = "fnet|flash";
  c.positions = PositionKind::kLearned;
  all.push_back({c, shape});
  c.unpooled_keys = true;
  c.attention = "flash";
  c.dropout = 0.2F;
  c.head = HeadKind::kClassifier;
  c.classes = 3;
  c.pool = Pool::kMean;
  all.push_back({c, {.batch = 3, .length = 13, .padded = true}});
  c.dropout = 0.0F;
  c.lora_rank = 2;
  c.lora_alpha = 1.0F;
  all.push_back({c, shape});
  return all;
}

TEST(Stages, RunAsTheyWereWalked) {
  for (const Staged& m : models()) {
    SCOPED_TRACE(m.config.attention + " " + m.config.stages);
    Model model(m.config);
    const BatchData data(m.config, m.shape, 7);
    const Batch batch = data.view();
    model.allocate(3);
    Meter inference, training;
    {
      const Meter::Use use(inference);
      model.evaluate(batch);
    }
    EXPECT_EQ(model.arena().peak(), model.inference_bytes(batch));
    const StepMemory memory = model.walk_training(batch);
    {
      const Meter::Use use(training);
      model.forward(batch, 1, 1.0F);
      EXPECT_EQ(model.arena().used(), memory.kept);
      model.backward(batch, 1.0F);
    }
    EXPECT_EQ(model.arena().peak(), memory.peak);
    for (const bool trains : {false, true}) {
      const Meter& meter = trains ? training : inference;
      CostTable told = testing::executed_formula(m.config, batch, trains);
      CostTable dry = model.cost(batch, trains);
      CostTable ran;
      for (const auto& [key, work] : meter.entries()) ran[key.layer].of(key.phase) += work;
      for (const auto& [layer, cost] : ran) {
        for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kUpdate}) {
          const std::string where = layer + " " + std::string(name_of(phase));
          testing::expect_same(ran[layer].of(phase), dry[layer].of(phase), where + ", dry");
          testing::expect_same(ran[layer].of(phase), told[layer].of(phase), where + ", formula");
        }
      }
    }
  }
}

// The same loss from evaluation and training, and its slope along the gradient.
TEST(Stages, GradientsAreSlopes) {
  for (const Staged& m : models()) {
    SCOPED_TRACE(m.config.attention + " " + m.config.stages);
    ModelConfig config = m.config;
    config.dropout = 0.0F;
    Model model(config);
    const BatchData data(config, m.shape, 7);
    const Batch batch = data.view();
    model.allocate(3);
    testing::randomize(model.parameters(), 3);
    const double trained = model.forward(batch, 1, 1.0F).loss;
    model.backward(batch, 1.0F);
    EXPECT_NEAR(model.evaluate(batch).loss, trained, 1e-5 * std::abs(trained));
    // Of each parameter, so that a small one cannot hide.
    for (const Parameter& p : model.parameters().all()) {
      double square = 0.0;
      for (const float g : p.gradient) square += static_cast<double>(g) * g;
      const double norm = std::sqrt(square);
      if (norm < 1e-3) continue;  // not trained, or nothing to measure
      const std::vector<float> before(p.value.begin(), p.value.end());
      constexpr double kStep = 4e-3;
      double ends[2];
      for (const int side : {0, 1}) {
        for (std::size_t i = 0; i < p.value.size(); ++i) {
          p.value[i] =
              static_cast<float>(before[i] + (side == 0 ? 1 : -1) * kStep * p.gradient[i] / norm);
        }
        ends[side] = model.evaluate(batch).loss;
      }
      std::ranges::copy(before, p.value.begin());
      EXPECT_NEAR((ends[0] - ends[1]) / (2 * kStep), norm, 1e-2 * norm + 5e-3) << p.name;
    }
  }
}

TEST(Stages, RefuseWhatTheyCannotDo) {
  const ModelConfig good = models()[0].config;
  const auto refused = [&](auto change) {
    const auto build = [&] {
      ModelConfig c = good;
      change(c);
      const Model model(c);
    };
    EXPECT_THROW(build(), Error);
  };
  refused([](ModelConfig& c) { c.stages = "2|2"; });
  refused([](ModelConfig& c) { c.stages = "2"; });
  refused([](ModelConfig& c) { c.stages = "1|x"; });
  refused([](ModelConfig& c) { c.stages = "0|1"; });
  const auto says = [&](const char* stages, std::size_t layers, const std::string& text) {
    ModelConfig c = good;
    c.stages = stages;
    c.layers = layers;
    try {
      check(c);
      ADD_FAILURE() << stages;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
  };
  says("5|5", 1, "the stages 5|5 leave no layer behind them in a model of 1 layers");
  says("4|4", 8, "need more layers, or fewer in the stages");
  says("9000000000000000000|9000000000000000000", 8, "leave no layer behind them");
  says("3", 8, "one stage of 3 layers; need two or more");
  says("2|-1", 8, "a stage of -1 layers in 2|-1; need at least 1 in each");
  refused([](ModelConfig& c) { c.wiring = Wiring::kPreNorm; });
  refused([](ModelConfig& c) { c.family = Family::kEncoderDecoder, c.decoder_layers = 1; });
  refused([](ModelConfig& c) { c.checkpointing = true; });
  refused([](ModelConfig& c) { c.frozen_layers = 1; });
  refused([](ModelConfig& c) { c.stage_pool = "sum"; });
  refused([](ModelConfig& c) { c.attention = "fnet"; });
  refused([](ModelConfig& c) { c.attention = "transformer-xl"; });
  Model model(good);
  EXPECT_THROW(model.walk_training({.batch = 1, .length = 2}), Error);
}

}  // namespace stages_test
}  // namespace longspan
