// What must hold for every model whatever its weights: causality, padding, independence of the
// sequences of a batch, bits that do not depend on the number of threads, and a loss that is none
// if weights are none.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "longspan/attention/registry.h"
#include "longspan/models/model.h"
#include "longspan/testing/bits.h"
#include "longspan/testing/reference_cases.h"

namespace longspan {
namespace model_invariants_test {

using testing::BatchData;
using testing::BatchShape;
using testing::ModelCase;
using testing::random_model;
using testing::same_bits;
using testing::train_bits;

std::vector<float> logits_of(Model& model, const Batch& batch) {
  const ConstMatrix y = model.logits(batch);
  return {y.data, y.data + y.size()};
}

ModelConfig larger_decoder() {
  ModelConfig c;
  c.layers = 2;
  c.d_model = 24;
  c.heads = 4;
  c.kv_heads = 2;
  c.positions = PositionKind::kRotary;
  c.vocab = 31;
  c.max_length = 150;
  return c;
}

// Nor the other sequence of the batch; but its own.
void expect_causal(const ModelConfig& config, const std::string& what) {
  Model model = random_model(config);
  const std::size_t length = 131;
  BatchData data(config, {.batch = 2, .length = length}, 3);
  const std::vector<float> before = logits_of(model, data.view());
  for (const std::size_t t : {std::size_t{0}, std::size_t{1}, std::size_t{17}, std::size_t{63},
                              std::size_t{64}, std::size_t{65}, length - 1}) {
    BatchData changed = data;
    changed.tokens[t] = (changed.tokens[t] + 1) % 31;
    const std::vector<float> after = logits_of(model, changed.view());
    const std::size_t head = t * config.vocab;
    EXPECT_TRUE(same_bits(std::span(before).first(head), std::span(after).first(head)))
        << what << ": token " << t << " reached back";
    EXPECT_FALSE(same_bits(std::span(before).subspan(head, config.vocab),
                           std::span(after).subspan(head, config.vocab)))
        << what << ": token " << t << " reached nothing";
    const std::size_t other = length * config.vocab;
    EXPECT_TRUE(same_bits(std::span(before).subspan(other), std::span(after).subspan(other)))
        << what << ": token " << t << " reached another sequence";
  }
}

TEST(Causal, LaterTokensDoNotReachEarlierLogits) {
  for (const Mechanism& mechanism : mechanisms()) {
    const Abilities can = abilities_of(mechanism.name);
    if (!can.causal) continue;
    for (const char* wiring : {"post", "pre", "reversible"}) {
      ModelConfig config = larger_decoder();
      config.attention = std::string(mechanism.name);
      if (!can.grouped_heads) config.kv_heads = 0;
      config.wiring = wiring;
      expect_causal(config, config.attention + " " + wiring);
    }
  }
}

TEST(Causal, NorThroughLayersOfReleasedModels) {
  for (const char* wiring : {"sandwich", "reordered", "parallel", "parallel-shared"}) {
    for (const char* attention :
         {"flash:before=70,sinks=true|flash:before=3,after=5", "flash:cap=2,distances=alibi",
          "flash:distances=buckets,buckets=8,span=20"}) {
      ModelConfig config = larger_decoder();
      config.wiring = wiring;
      config.attention = attention;
      config.query_norm = QueryNorm::kWhole;
      config.rotary = "width=2|none";
      expect_causal(config, config.attention + " " + wiring);
    }
  }
}

class Invariants : public ::testing::TestWithParam<ModelCase> {};

// Padding that is masked may hold anything; and a batch without it gives the same.
TEST_P(Invariants, MaskedTokensChangeNothing) {
  if (GetParam().config.attention.starts_with("fnet")) GTEST_SKIP() << "mixes padding in";
  if (GetParam().config.stem != StemKind::kTokens) GTEST_SKIP() << "its sequences are whole";
  if (GetParam().config.rotary.find("longrope") != std::string::npos) {
    GTEST_SKIP() << "turns by how long a batch is";
  }
  const ModelCase& c = GetParam();
  Model model = random_model(c.config);
  BatchShape shape = c.shape;
  shape.padded = false;
  const BatchData plain(c.config, shape, 11);
  const std::vector<float> want = logits_of(model, plain.view());

  BatchShape longer = shape;
  longer.length += 2;
  if (shape.source_length > 0) longer.source_length += 1;
  BatchData data(c.config, longer, 13);
  for (std::size_t b = 0; b < shape.batch; ++b) {
    for (std::size_t i = 0; i < shape.length; ++i) {
      data.tokens[b * longer.length + i] = plain.tokens[b * shape.length + i];
      if (shape.typed) data.types[b * longer.length + i] = plain.types[b * shape.length + i];
      if (!plain.times.empty()) {
        data.times[b * longer.length + i] = plain.times[b * shape.length + i];
      }
    }
    for (std::size_t i = 0; i < shape.source_length; ++i) {
      data.source[b * longer.source_length + i] = plain.source[b * shape.source_length + i];
    }
  }
  data.lengths.assign(shape.batch, static_cast<std::int32_t>(shape.length));
  if (shape.source_length > 0) {
    data.source_lengths.assign(shape.batch, static_cast<std::int32_t>(shape.source_length));
  }
  const std::vector<float> padded = logits_of(model, data.view());
  const std::size_t cols = c.config.outputs();
  const bool pairs = c.config.head == HeadKind::kPairs;
  const bool pooled = c.config.pools();
  const std::size_t answers = pairs ? shape.batch / 2 : shape.batch;
  // The products are cut by shape, so a longer batch may round differently; the values may not.
  float largest = 0.0F;
  for (const float w : want) largest = std::max(largest, std::abs(w));
  const auto real = [&](std::size_t b, std::size_t i) {
    return (pooled ? b : b * longer.length + i) * cols;
  };
  const std::size_t rows = pooled ? 1 : shape.length;
  for (std::size_t b = 0; b < answers; ++b) {
    for (std::size_t k = 0; k < rows * cols; ++k) {
      ASSERT_NEAR(padded[real(b, 0) + k], want[(b * rows) * cols + k], 3e-6F * largest)
          << "sequence " << b << ", element " << k;
    }
  }
  // Other padding, the same shape: the same bits.
  BatchData other = data;
  for (std::size_t b = 0; b < shape.batch; ++b) {
    for (std::size_t i = shape.length; i < longer.length; ++i) {
      std::int32_t& token = other.tokens[b * longer.length + i];
      token = (token + 1) % static_cast<std::int32_t>(c.config.vocab);
    }
    for (std::size_t i = shape.source_length; i < longer.source_length; ++i) {
      std::int32_t& token = other.source[b * longer.source_length + i];
      token = (token + 1) % static_cast<std::int32_t>(c.config.vocab);
    }
  }
  const std::vector<float> again = logits_of(model, other.view());
  for (std::size_t b = 0; b < answers; ++b) {
    EXPECT_TRUE(same_bits(std::span(padded).subspan(real(b, 0), rows * cols),
                          std::span(again).subspan(real(b, 0), rows * cols)));
  }
}

TEST_P(Invariants, SequencesOfABatchDoNotMeet) {
  const ModelCase& c = GetParam();
  if (c.shape.batch < 2) GTEST_SKIP() << "one sequence";
  Model model = random_model(c.config);
  const BatchData data(c.config, c.shape, 17);
  const std::vector<float> before = logits_of(model, data.view());
  BatchData changed = data;
  const auto vocab = static_cast<std::int32_t>(c.config.vocab);
  for (std::size_t i = 0; i < c.shape.length; ++i) changed.tokens[i] = (data.tokens[i] + 1) % vocab;
  for (std::size_t i = 0; i < c.shape.source_length; ++i) {
    changed.source[i] = (data.source[i] + 1) % vocab;
  }
  for (std::size_t i = 0; i < data.features.size() / c.shape.batch; ++i)
    changed.features[i] += 1.0F;
  const std::vector<float> after = logits_of(model, changed.view());
  const bool pairs = c.config.head == HeadKind::kPairs;
  const std::size_t one = before.size() / (pairs ? c.shape.batch / 2 : c.shape.batch);
  EXPECT_FALSE(same_bits(std::span(before).first(one), std::span(after).first(one)));
  EXPECT_TRUE(same_bits(std::span(before).subspan(one), std::span(after).subspan(one)));
}

TEST_P(Invariants, ThreadsDoNotChangeTheBits) {
  const ModelCase& c = GetParam();
  const BatchData data(c.config, c.shape, 19);
  EXPECT_TRUE(
      same_bits(train_bits(c.config, data.view(), 1), train_bits(c.config, data.view(), 2)));
}

INSTANTIATE_TEST_SUITE_P(Cases, Invariants, ::testing::ValuesIn(testing::model_cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Released, Invariants, ::testing::ValuesIn(testing::released_cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Pairs, Invariants, ::testing::ValuesIn(testing::pair_cases()),
                         [](const auto& instance) { return instance.param.name; });

TEST(Weights, ThatAreNoNumbersGiveNoLoss) {
  for (const Mechanism& mechanism : mechanisms()) {
    for (const std::size_t length : {2U, 16U, 131U}) {
      ModelConfig config = larger_decoder();
      config.family = Family::kEncoder;
      config.positions = PositionKind::kLearned;
      config.kv_heads = 0;
      config.attention = std::string(mechanism.name);
      Model model = random_model(config);
      const BatchData data(config, {.batch = 2, .length = length}, 3);
      EXPECT_TRUE(std::isfinite(model.evaluate(data.view()).loss)) << mechanism.name;
      // Of the queries alone, which stand first.
      Parameter* weight = model.parameters().find("encoder.1.attention.qkv.weight");
      if (weight == nullptr) weight = model.parameters().find("encoder.1.attention.q.weight");
      ASSERT_NE(weight, nullptr) << mechanism.name;
      std::fill_n(weight->value.begin(), config.d_model * config.d_model,
                  std::numeric_limits<float>::quiet_NaN());
      EXPECT_TRUE(std::isnan(model.evaluate(data.view()).loss)) << mechanism.name << " " << length;
    }
  }
}

}  // namespace model_invariants_test
}  // namespace longspan
