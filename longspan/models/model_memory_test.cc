// The arena's high-water mark is the prediction, to the byte.
#include <gtest/gtest.h>

#include "longspan/attention/registry.h"
#include "longspan/base/parallel.h"
#include "longspan/models/model.h"
#include "longspan/testing/reference_cases.h"

namespace longspan {
namespace model_memory_test {

using testing::BatchData;
using testing::BatchShape;
using testing::ModelCase;

class PlannedModel : public ::testing::TestWithParam<ModelCase> {};

TEST_P(PlannedModel, TrainingTakesWhatWasBooked) {
  const ModelCase& c = GetParam();
  const RandomKey key = derive(29, c.name);
  const int usual = thread_count();
  for (std::uint64_t i = 0; i < 4; ++i) {
    BatchShape shape = c.shape;
    if (i > 0) {
      shape.batch = testing::sequences_for(c.config, 1 + random_below(key, 3 * i, 5));
      shape.length = 1 + random_below(key, 3 * i + 1, c.config.max_length);
      if (shape.source_length > 0) {
        shape.source_length = 1 + random_below(key, 3 * i + 2, longest_source(c.config));
      }
    }
    set_thread_count(1 + static_cast<int>(i % 3));  // each thread has scratch of its own
    Model model(c.config);
    model.allocate(1);
    const BatchData data(c.config, shape, i);
    const std::size_t predicted = model.training_bytes(data.view());
    model.forward(data.view(), 1, 1.0F);
    EXPECT_EQ(model.arena().capacity(), predicted);
    model.backward(data.view(), 1.0F);
    EXPECT_EQ(model.arena().peak(), predicted)
        << "batch " << shape.batch << " length " << shape.length;
  }
  set_thread_count(usual);
}

TEST_P(PlannedModel, InferenceTakesWhatWasBooked) {
  const ModelCase& c = GetParam();
  Model model(c.config);
  model.allocate(1);
  const BatchData data(c.config, c.shape, 3);
  model.logits(data.view());
  EXPECT_EQ(model.arena().peak(), model.inference_bytes(data.view()));
  EXPECT_EQ(model.arena().capacity(), model.inference_bytes(data.view()));
  EXPECT_LT(model.inference_bytes(data.view()), model.training_bytes(data.view()));
}

// A shape alone, without tokens, predicts the same: that is how a run is planned.
TEST_P(PlannedModel, ShapeAloneIsEnough) {
  const ModelCase& c = GetParam();
  if (c.shape.padded || c.shape.typed) GTEST_SKIP() << "lengths and types are part of the shape";
  const Model model(c.config);
  const BatchData data(c.config, c.shape, 3);
  const Batch shape{
      .batch = c.shape.batch, .length = c.shape.length, .source_length = c.shape.source_length};
  EXPECT_EQ(model.training_bytes(shape), model.training_bytes(data.view()));
  EXPECT_EQ(model.inference_bytes(shape), model.inference_bytes(data.view()));
}

// What a training step keeps until backward, written out by hand: R rows of width d, f of a
// feed-forward, h heads, v outputs, L layers.
//
//   a norm         x̂ and 1/σ                        R·d, R
//   attention      q|k|v, the heads' outputs, L      3·R·d, R·d, R·h
//   feed-forward   z and h                           2·R·f
//   post-norm      the two and two norms, and each sublayer's output
//   pre-norm       the two and two norms, what the norms gave, and two buffers that take turns
//   reversible     two streams and their mean, at any depth
//   checkpointing  the input of each layer, and the output of the last
TEST(KeptMemory, IsWhatTheWiringSays) {
  constexpr std::size_t kBatch = 3, kLength = 37, kWidth = 24, kHidden = 41, kHeads = 4,
                        kVocab = 19;
  constexpr std::size_t kRows = kBatch * kLength;
  const auto bytes = [](std::size_t floats) { return (4 * floats + 63) / 64 * 64; };
  const std::size_t row = bytes(kRows * kWidth);
  const std::size_t norm = row + bytes(kRows);
  const std::size_t attention = bytes(3 * kRows * kWidth) + row + bytes(kRows * kHeads);
  const std::size_t feed_forward = 2 * bytes(kRows * kHidden);
  const std::size_t logits = bytes(kRows * kVocab);
  for (const std::size_t layers : {1U, 2U, 5U}) {
    ModelConfig c;
    c.layers = layers;
    c.d_model = kWidth;
    c.d_ff = kHidden;
    c.heads = kHeads;
    c.vocab = kVocab;
    c.max_length = kLength;
    const auto kept = [&](const std::string& wiring, bool checkpointing) {
      c.wiring = wiring;
      c.checkpointing = checkpointing;
      return Model(c).walk_training({.batch = kBatch, .length = kLength}).kept;
    };
    const std::size_t embedded = row;
    const std::size_t layer = attention + feed_forward + 2 * norm;
    EXPECT_EQ(kept("post", false), embedded + layers * (layer + 2 * row) + logits);
    EXPECT_EQ(kept("pre", false), embedded + row + layers * (layer + 2 * row) + norm + logits);
    EXPECT_EQ(kept("reversible", false), embedded + 2 * row + norm + logits);
    EXPECT_EQ(kept("post", true), embedded + layers * row + logits);
    EXPECT_EQ(kept("pre", true), embedded + layers * row + norm + logits);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, PlannedModel, ::testing::ValuesIn(testing::model_cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Released, PlannedModel, ::testing::ValuesIn(testing::released_cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Pairs, PlannedModel, ::testing::ValuesIn(testing::pair_cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Perceptrons, PlannedModel,
                         ::testing::ValuesIn(testing::perceptron_cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Frozen, PlannedModel, ::testing::ValuesIn(testing::frozen_cases()),
                         [](const auto& instance) { return instance.param.name; });

std::size_t bytes_of(Choice<Family> family, Choice<Wiring> wiring, std::size_t layers) {
  ModelConfig c;
  c.family = family;
  c.layers = layers;
  c.decoder_layers = family == Family::kEncoderDecoder ? layers : 0;
  c.wiring = wiring;
  c.dropout = 0.1F;
  return Model(c).training_bytes({.batch = 2, .length = 64, .source_length = 32});
}

TEST(Reversible, ActivationsDoNotGrowWithDepth) {
  for (const char* family : {"encoder", "decoder", "encoder-decoder"}) {
    EXPECT_EQ(bytes_of(family, "reversible", 1), bytes_of(family, "reversible", 2)) << family;
    EXPECT_EQ(bytes_of(family, "reversible", 1), bytes_of(family, "reversible", 48)) << family;
    for (const char* wiring : {"pre", "post"}) {
      const std::size_t step = bytes_of(family, wiring, 3) - bytes_of(family, wiring, 2);
      EXPECT_GT(step, 0U);
      EXPECT_EQ(bytes_of(family, wiring, 13) - bytes_of(family, wiring, 3), 10 * step) << family;
    }
  }
}

TEST(Decode, TakesWhatWasBookedForAFullCache) {
  for (const char* attention :
       {"full", "flash", "transformer-xl", "reformer:chunk=5", "longformer:window=6,global=3"}) {
    for (const char* wiring : {"post", "pre", "reversible"}) {
      ModelConfig c;
      c.layers = 2;
      c.d_model = 24;
      c.kv_heads = abilities_of(attention).grouped_heads ? 2 : 0;
      c.attention = attention;
      c.wiring = wiring;
      Model model(c);
      model.allocate(1);
      constexpr std::size_t kCapacity = 37;
      const std::size_t cache_bytes = model.cache_bytes(2, kCapacity);
      Arena memory(cache_bytes);
      std::vector<DecodeCache> caches = model.make_caches(2, kCapacity, memory);
      EXPECT_EQ(memory.used(), cache_bytes);
      EXPECT_EQ(caches.size(), 4U);
      std::size_t booked = 0;
      for (std::int32_t t = 0; t < static_cast<std::int32_t>(kCapacity); ++t) {
        const std::vector<std::int32_t> tokens = {t, t + 1};
        model.decode({.batch = 2, .length = 1, .tokens = tokens}, caches);
        if (t == 0) booked = model.arena().capacity();
        ASSERT_EQ(model.arena().capacity(), booked) << "booked again at token " << t;
      }
      EXPECT_EQ(model.arena().peak(), booked) << attention << ' ' << wiring;
    }
  }
}

}  // namespace model_memory_test
}  // namespace longspan
