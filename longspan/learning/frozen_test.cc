// Checkpointing changes nothing but memory; frozen parts stay as they are and cost no update;
// adapters learn what the low-rank part of the full weight would.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "longspan/base/error.h"
#include "longspan/learning/trainer.h"
#include "longspan/models/model.h"
#include "longspan/testing/reference_cases.h"

namespace longspan {
namespace frozen_test {

using testing::BatchData;
using testing::ModelCase;

std::unique_ptr<Model> stepped(const ModelConfig& config, const Batch& batch) {
  auto model = std::make_unique<Model>(config);
  model->allocate(1);
  model->forward(batch, 7, 1.0F);
  model->backward(batch, 1.0F);
  return model;
}

TEST(Checkpointing, GradientsAreTheSameBits) {
  for (const ModelCase& c : testing::model_cases()) {
    if (c.config.wiring == Wiring::kReversible) continue;
    SCOPED_TRACE(c.name);
    const BatchData data(c.config, c.shape, 3);
    ModelConfig kept = c.config;
    kept.checkpointing = false;
    ModelConfig again = c.config;
    again.checkpointing = true;
    const auto a = stepped(kept, data.view());
    const auto b = stepped(again, data.view());
    EXPECT_TRUE(std::ranges::equal(a->parameters().gradients(), b->parameters().gradients()));
  }
}

TEST(Checkpointing, MemoryGrowsByOneInputALayer) {
  ModelConfig c;
  c.checkpointing = true;
  const Batch shape{.batch = 2, .length = 64};
  const auto bytes = [&](std::size_t layers) {
    c.layers = layers;
    return Model(c).training_bytes(shape);
  };
  EXPECT_EQ(bytes(9) - bytes(8), shape.batch * shape.length * c.d_model * sizeof(float));
}

TEST(Frozen, TrainsTheRestAsBefore) {
  for (const ModelCase& c : testing::frozen_cases()) {
    if (c.config.frozen_layers == 0) continue;
    SCOPED_TRACE(c.name);
    const BatchData data(c.config, c.shape, 3);
    ModelConfig whole = c.config;
    whole.frozen_layers = 0;
    const auto a = stepped(whole, data.view());
    const auto b = stepped(c.config, data.view());
    std::size_t frozen = 0;
    for (const Parameter& p : b->parameters().all()) {
      if (p.constant) {
        ++frozen;
        EXPECT_TRUE(p.gradient.empty()) << p.name;
      } else {
        EXPECT_TRUE(std::ranges::equal(p.gradient, a->parameters().find(p.name)->gradient))
            << p.name;
      }
    }
    EXPECT_GT(frozen, 0U);
    EXPECT_EQ(b->parameters().total(), a->parameters().total());
    EXPECT_LT(b->parameters().count(), a->parameters().count());
  }
}

// A table that all layers of a stack read belongs to none of them.
TEST(Frozen, TablesOfTheStackLearnStill) {
  const std::pair<const char*, const char*> tables[] = {
      {"flash:distances=buckets", "encoder.distances"},
      {"deberta", "encoder.relative"},
      {"linformer:sharing=layerwise,k=4", "encoder.linformer.e"}};
  for (const auto& [attention, table] : tables) {
    ModelConfig c;
    c.family = Family::kEncoder;
    c.layers = 2;
    c.d_model = 12;
    c.heads = 2;
    c.vocab = 11;
    c.max_length = 16;
    c.attention = attention;
    c.frozen_layers = 1;
    const BatchData data(c, {.batch = 2, .length = 9}, 3);
    const auto model = stepped(c, data.view());
    const Parameter* p = model->parameters().find(table);
    ASSERT_NE(p, nullptr) << table;
    EXPECT_FALSE(p->constant) << table;
    EXPECT_TRUE(std::ranges::any_of(p->gradient, [](float g) { return g != 0.0F; })) << table;
  }
}

TEST(Frozen, StepsLeaveTheFrozenAlone) {
  for (const ModelCase& c : testing::frozen_cases()) {
    SCOPED_TRACE(c.name);
    const BatchData data(c.config, c.shape, 3);
    Model model(c.config);
    Model before(c.config);
    model.allocate(1);
    before.allocate(1);
    TrainConfig train;
    train.optimizer.weight_decay = 0.5F;
    Trainer trainer(model, train);
    const Batch batch = data.view();
    for (int step = 0; step < 3; ++step) trainer.step({&batch, 1});
    std::size_t moved = 0;
    for (const Parameter& p : model.parameters().all()) {
      const bool same = std::ranges::equal(p.value, before.parameters().find(p.name)->value);
      EXPECT_TRUE(same || !p.constant) << p.name;
      if (!same) ++moved;
    }
    EXPECT_GT(moved, 0U);
  }
}

// y = x·(W + s·B·A)ᵀ has dB = s·dW·Aᵀ and dA = s·Bᵀ·dW.
TEST(Adapters, LearnTheLowRankPartOfTheWeight) {
  ModelConfig config;
  config.layers = 2;
  config.d_model = 12;
  config.heads = 3;
  config.vocab = 13;
  config.max_length = 9;
  ModelConfig with = config;
  with.lora_rank = 3;
  const BatchData data(config, {.batch = 2, .length = 7}, 3);
  Model adapted(with);
  adapted.allocate(1);
  for (Parameter& p : adapted.parameters().all()) {
    if (!p.name.ends_with(".lora_b")) continue;
    for (std::size_t i = 0; i < p.size(); ++i) p.value[i] = 0.1F * random_normal(9, i);
  }
  Model merged(config);
  merged.allocate(1);
  const float scale = with.lora_alpha / static_cast<float>(with.lora_rank);
  // One beside each matrix: its name, the name of the weight, and where its rows begin there.
  struct Place {
    const char* adapter;
    const char* weight;
    std::size_t first;
  };
  const std::vector<Place> places = {
      {"q", "qkv", 0}, {"k", "qkv", 12}, {"v", "qkv", 24}, {"out", "out", 0}};
  const auto name_of = [](std::size_t layer, const char* part) {
    return "decoder." + std::to_string(layer) + ".attention." + part;
  };
  for (std::size_t layer = 0; layer < 2; ++layer) {
    for (const Place& place : places) {
      const std::string name = name_of(layer, place.adapter);
      const ConstMatrix a = adapted.parameters().find(name + ".lora_a")->matrix();
      const ConstMatrix b = adapted.parameters().find(name + ".lora_b")->matrix();
      const Parameter& w = *merged.parameters().find(name_of(layer, place.weight) + ".weight");
      for (std::size_t o = 0; o < b.rows; ++o) {
        for (std::size_t i = 0; i < w.cols; ++i) {
          for (std::size_t r = 0; r < a.rows; ++r) {
            w.value[(place.first + o) * w.cols + i] += scale * b.row(o)[r] * a.row(r)[i];
          }
        }
      }
    }
  }
  for (Model* model : {&adapted, &merged}) {
    model->forward(data.view(), 7, 1.0F);
    model->backward(data.view(), 1.0F);
  }
  for (std::size_t which = 0; which < 2 * places.size(); ++which) {
    const Place& place = places[which / 2];
    const std::string name = name_of(which % 2, place.adapter);
    const Parameter& a = *adapted.parameters().find(name + ".lora_a");
    const Parameter& b = *adapted.parameters().find(name + ".lora_b");
    const ConstMatrix dw = merged.parameters()
                               .find(name_of(which % 2, place.weight) + ".weight")
                               ->gradient_matrix()
                               .slice_rows(place.first, 12);
    for (std::size_t r = 0; r < a.rows; ++r) {
      for (std::size_t i = 0; i < a.cols; ++i) {
        double want = 0.0;
        for (std::size_t o = 0; o < b.rows; ++o) want += b.matrix().row(o)[r] * dw.row(o)[i];
        EXPECT_NEAR(a.gradient[r * a.cols + i], scale * want, 2e-5) << name;
      }
      for (std::size_t o = 0; o < b.rows; ++o) {
        double want = 0.0;
        for (std::size_t i = 0; i < a.cols; ++i) want += a.matrix().row(r)[i] * dw.row(o)[i];
        EXPECT_NEAR(b.gradient[o * b.cols + r], scale * want, 2e-5) << name;
      }
    }
  }
}

TEST(Adapters, BeginAsNothing) {
  ModelConfig config;
  ModelConfig with = config;
  with.lora_rank = 4;
  const BatchData data(config, {.batch = 2, .length = 9}, 3);
  Model plain(config);
  Model adapted(with);
  plain.allocate(1);
  adapted.allocate(1);
  const ConstMatrix a = plain.logits(data.view());
  const ConstMatrix b = adapted.logits(data.view());
  EXPECT_TRUE(std::equal(a.data, a.data + a.size(), b.data));
}

TEST(Frozen, RefusesWhatCannotBe) {
  const auto error_of = [](auto change) -> std::string {
    ModelConfig c;
    change(c);
    try {
      check(c);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_of([](auto& c) { c.frozen_layers = 5; }),
            "[model] 5 frozen layers of 4; need at most all of them");
  EXPECT_EQ(error_of([](auto& c) { c.lora_rank = 129; }),
            "[model] adapters of rank 129 on a width of 128; need at most 128");
  EXPECT_EQ(error_of([](auto& c) {
              c.wiring = Wiring::kReversible;
              c.checkpointing = true;
            }),
            "[model] reversible layers keep nothing and cannot be frozen or checkpointed; need pre "
            "or post wiring");
}

}  // namespace frozen_test
}  // namespace longspan
