// Packed sequences give what they give alone, and what they give padded: outputs, loss and the
// gradients of all parameters; and take no memory that was not booked.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "longspan/attention/registry.h"
#include "longspan/base/error.h"
#include "longspan/models/model.h"
#include "longspan/testing/bits.h"
#include "longspan/testing/check_layer.h"
#include "longspan/testing/reference_cases.h"
#include "longspan/testing/test_name.h"

namespace longspan {
namespace packed_test {

using testing::BatchData;
using testing::random_model;

using Lengths = std::vector<std::int32_t>;

// One token alone, neighbours of equal length, and lengths around a tile.
const Lengths kLengths = {5, 1, 70, 70, 1, 18, 18, 64, 3, 65};

// The same data padded and packed.
struct Sequences {
  Sequences(const ModelConfig& config, const Lengths& lengths, bool typed = false,
            const Lengths& sources = {})
      : data(config,
             {.batch = lengths.size(),
              .length = static_cast<std::size_t>(std::ranges::max(lengths)),
              .source_length =
                  sources.empty() ? 0 : static_cast<std::size_t>(std::ranges::max(sources)),
              .padded = true,
              .typed = typed},
             7),
        of_rows(config.head != HeadKind::kClassifier && config.head != HeadKind::kPairs) {
    data.lengths = lengths;
    data.source_lengths = sources;
    for (std::size_t i = 0; of_rows && i < data.targets.size(); ++i) {
      const std::size_t length = data.targets.size() / lengths.size();
      if (i % length >= static_cast<std::size_t>(lengths[i / length])) {
        data.targets[i] = kIgnoredTarget;
      } else if (data.targets[i] == kIgnoredTarget && i % 5 != 3) {
        data.targets[i] = static_cast<std::int32_t>(i % config.outputs());
      }
    }
  }

  Batch padded() const { return data.view(); }
  Batch packed() const {
    return pack(padded(), of_rows ? Answers::kOfRows : Answers::kOfSequences, memory);
  }
  // Sequence b of it as a batch of its own.
  Batch alone(std::size_t b) const {
    const Batch all = packed();
    const auto row = [&](const Lengths& lengths) {
      return static_cast<std::size_t>(
          std::accumulate(lengths.begin(), lengths.begin() + static_cast<std::ptrdiff_t>(b), 0));
    };
    const auto part = [](auto whole, std::size_t first, std::size_t count) {
      return whole.empty() ? whole : whole.subspan(first, count);
    };
    const std::size_t first = row(data.lengths);
    Batch one;
    one.batch = 1;
    one.length = static_cast<std::size_t>(data.lengths[b]);
    one.tokens = part(all.tokens, first, one.length);
    one.token_types = part(all.token_types, first, one.length);
    one.times = part(all.times, first, one.length);
    one.targets = of_rows ? part(all.targets, first, one.length) : part(all.targets, b, 1);
    if (data.source_lengths.empty()) return one;
    one.source_length = static_cast<std::size_t>(data.source_lengths[b]);
    one.source = part(all.source, row(data.source_lengths), one.source_length);
    return one;
  }

  BatchData data;
  bool of_rows;
  mutable PackedMemory memory;
};

// What a step gives; the gradients of several steps add up.
struct Step {
  std::vector<float> logits;
  double loss = 0.0;
  std::vector<float> gradients;
};

void add_step(Model& model, const Batch& batch, Step& step) {
  const ConstMatrix y = model.logits(batch);
  for (std::size_t r = 0; r < y.rows; ++r) {
    step.logits.insert(step.logits.end(), y.row(r).begin(), y.row(r).end());
  }
  // Of a batch without targets there is no gradient; one token alone may have none.
  if (model.loss().count(batch) == 0) return;
  step.loss += model.forward(batch, 3, 0.1F).loss;
  model.backward(batch, 0.1F);
}

Step step_of(Model& model, const std::vector<Batch>& batches) {
  const auto gradients = model.parameters().gradients();
  std::ranges::fill(gradients, 0.0F);
  Step step;
  for (const Batch& batch : batches) add_step(model, batch, step);
  step.gradients.assign(gradients.begin(), gradients.end());
  return step;
}

// Products are cut by shape and sums taken in another order: float32 rounding of the largest.
void expect_near(const std::vector<float>& got, const std::vector<float>& want, float tolerance,
                 const char* what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  float largest = 0.0F;
  for (const float w : want) largest = std::max(largest, std::abs(w));
  ASSERT_GT(largest, 0.0F) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], tolerance * largest) << what << " " << i;
  }
}

void expect_same_step(const Step& got, const Step& want) {
  expect_near(got.logits, want.logits, 1e-5F, "logit");
  expect_near(got.gradients, want.gradients, 3e-5F, "gradient");
  EXPECT_NEAR(got.loss, want.loss, 1e-6 * std::abs(want.loss));
}

// Rows of the padded batch that are no padding.
std::vector<float> real_rows(const std::vector<float>& padded, const Sequences& s) {
  if (!s.of_rows) return padded;
  const Batch batch = s.padded();
  const std::size_t width = padded.size() / batch.rows();
  std::vector<float> real;
  for (std::size_t b = 0; b < batch.batch; ++b) {
    const auto from = padded.begin() + static_cast<std::ptrdiff_t>(b * batch.length * width);
    real.insert(real.end(), from, from + s.data.lengths[b] * static_cast<std::ptrdiff_t>(width));
  }
  return real;
}

struct Comparisons {
  bool alone = true;   // not where sequences of a batch meet: pairs, experts
  bool padded = true;  // not where padding counts
};

void expect_packed(const ModelConfig& config, const Sequences& s, const Comparisons& to = {}) {
  Model model = random_model(config);
  ASSERT_TRUE(model.packs());
  const Step packed = step_of(model, {s.packed()});
  const Batch batch = s.packed();
  const StepMemory memory = model.walk_training(batch);
  model.forward(batch, 3, 0.1F);
  EXPECT_EQ(model.arena().used(), memory.kept);
  model.backward(batch, 0.1F);
  EXPECT_EQ(model.arena().peak(), memory.peak);
  if (to.alone) {
    SCOPED_TRACE("alone");
    std::vector<Batch> alone;
    for (std::size_t b = 0; b < s.data.lengths.size(); ++b) alone.push_back(s.alone(b));
    expect_same_step(packed, step_of(model, alone));
  }
  if (to.padded) {
    SCOPED_TRACE("padded");
    Step padded = step_of(model, {s.padded()});
    padded.logits = real_rows(padded.logits, s);
    expect_same_step(packed, padded);
  }
}

ModelConfig small(const Choice<Family>& family) {
  ModelConfig c;
  c.family = family;
  c.layers = 2;
  c.d_model = 16;
  c.heads = 2;
  c.d_ff = 24;
  c.vocab = 17;
  c.max_length = 70;
  c.tied = true;
  return c;
}

class PackedMechanism : public ::testing::TestWithParam<Mechanism> {};

TEST_P(PackedMechanism, GivesWhatSequencesGiveAlone) {
  const Abilities able = GetParam().abilities("");
  for (const Family family : {Family::kEncoder, Family::kDecoder}) {
    if (family == Family::kDecoder && !able.causal) continue;
    for (const Wiring wiring : {Wiring::kPreNorm, Wiring::kReversible}) {
      ModelConfig c = small(family);
      c.wiring = wiring;
      c.attention = GetParam().name;
      SCOPED_TRACE(fmt::format("{} {}", c.family, c.wiring));
      const Comparisons to{.padded = able.key_lengths && !able.reads_padding};
      expect_packed(c, {c, kLengths}, to);
      expect_packed(c, {c, {7, 7, 7}}, to);  // one run
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, PackedMechanism,
                         ::testing::ValuesIn(mechanisms().begin(), mechanisms().end()),
                         [](const auto& instance) {
                           return testing::test_name(instance.param.name);
                         });

TEST(Packed, MixersThatAreNoAttentionKnowTheirSequences) {
  ModelConfig c = small(Family::kDecoder);
  c.attention = "conv:width=4|flash";
  expect_packed(c, {c, kLengths});
  c.attention = "latent:rank=5,nope=3,rope=2,value=4|flash";
  c.positions = PositionKind::kRotary;
  expect_packed(c, {c, kLengths});
  c = small(Family::kEncoder);
  c.attention = "fnet|flash";
  expect_packed(c, {c, kLengths}, {.padded = false});
  EXPECT_TRUE(Model(c).reads_padding());
}

TEST(Packed, PositionsBeginAnewInEverySequence) {
  for (const PositionKind positions :
       {PositionKind::kNone, PositionKind::kLearned, PositionKind::kSinusoidal,
        PositionKind::kAxial, PositionKind::kRotary, PositionKind::kTemporal}) {
    ModelConfig c = small(Family::kEncoder);
    c.positions = positions;
    SCOPED_TRACE(fmt::format("{}", c.positions));
    c.position_offset = positions == PositionKind::kLearned ? 2 : 0;
    c.axial_rows = positions == PositionKind::kAxial ? 8 : 0;
    c.axial_width = positions == PositionKind::kAxial ? 5 : 0;
    c.embedding_mask = true;
    expect_packed(c, {c, kLengths});
  }
}

TEST(Packed, HeadsReadTheirSequences) {
  for (const HeadKind head : {HeadKind::kClassifier, HeadKind::kTagger, HeadKind::kPairs}) {
    for (const Pool pool : {Pool::kFirst, Pool::kMean}) {
      ModelConfig c = small(Family::kEncoder);
      c.head = head;
      c.pool = pool;
      c.classes = 5;
      c.tied = false;
      c.head_transform = head != HeadKind::kPairs;
      SCOPED_TRACE(fmt::format("{} {}", c.head, c.pool));
      expect_packed(c, {c, kLengths}, {.alone = head != HeadKind::kPairs});
    }
  }
}

TEST(Packed, BertAndItsTokenTypes) {
  ModelConfig c = small(Family::kEncoder);
  c.wiring = Wiring::kPostNorm;
  c.token_types = 3;
  c.embedding_norm = true;
  c.head_transform = true;
  c.head_norm = true;
  c.head_bias = true;
  c.padding_token = 0;
  expect_packed(c, {c, kLengths, /*typed=*/true});
  c.attention = "funnel";  // whose scores know the types
  expect_packed(c, {c, kLengths, /*typed=*/true});
}

TEST(Packed, LayersThatAreComputedAgainOrHaveAdapters) {
  ModelConfig c = small(Family::kDecoder);
  c.checkpointing = true;
  c.positions = PositionKind::kRotary;
  c.kv_heads = 1;
  expect_packed(c, {c, kLengths});
  c.checkpointing = false;
  c.lora_rank = 2;
  c.lora_alpha = 0.5F;  // as wide as drawn they would sharpen attention until rounding is large
  expect_packed(c, {c, kLengths});
  c = small(Family::kDecoder);
  c.frozen_layers = 1;
  expect_packed(c, {c, kLengths});
}

TEST(Packed, LayersOfReleasedModels) {
  for (const Wiring wiring :
       {Wiring::kSandwich, Wiring::kReordered, Wiring::kParallel, Wiring::kParallelShared}) {
    ModelConfig c = small(Family::kDecoder);
    c.wiring = wiring;
    SCOPED_TRACE(fmt::format("{}", c.wiring));
    c.kv_heads = 1;
    c.head_width = 6;
    c.query_norm = wiring == Wiring::kReordered ? QueryNorm::kWhole : QueryNorm::kHead;
    c.attention = "flash:before=9,sinks=true|flash:cap=5,sinks=true";
    c.positions = PositionKind::kRotary;
    c.rotary = "width=4|none";
    c.embedding_width = 10;
    c.tied = false;
    c.logit_cap = 4.0F;
    expect_packed(c, {c, kLengths});
    c.positions = PositionKind::kSinusoidalHalves;
    c.attention = "flash:distances=buckets,buckets=8,span=20|flash:distances=alibi";
    expect_packed(c, {c, kLengths});
  }
}

// Experts are chosen among the rows of all sequences, in their order, padded or not.
TEST(Packed, ExpertsMeetAllSequences) {
  ModelConfig c = small(Family::kDecoder);
  c.feed_forward = "experts:experts=4,top=2,capacity=1";
  expect_packed(c, {c, kLengths}, {.alone = false});
  c.feed_forward =
      "experts:experts=4,top=2,capacity=0.5,overflow=pass,shared=5,balance=0.3,balance_of=stack";
  expect_packed(c, {c, kLengths}, {.alone = false});
  c.feed_forward =
      "experts:experts=4,places=3,overflow=pass,balance=0.3,balance_of=sequences,squares=0.1";
  expect_packed(c, {c, kLengths}, {.alone = false});
}

// Unless none is full, or places are each sequence's own. Losses are means over all tokens.
TEST(Packed, ExpertsWithRoomReadSequencesAlone) {
  ModelConfig c = small(Family::kDecoder);
  c.feed_forward =
      "experts:experts=4,top=2,capacity=0,balance=0|experts:experts=4,places=2,balance=0,padding=1";
  expect_packed(c, {c, kLengths});
  EXPECT_FALSE(Model(c).reads_padding());
  c.feed_forward = "experts:experts=4,places=2,balance_of=sequences,padding=1";
  EXPECT_TRUE(Model(c).reads_padding());
  c.feed_forward = "experts:experts=4,padding=1,balance=0";
  EXPECT_TRUE(Model(c).reads_padding());
}

TEST(Packed, TranslatorsPackBothSides) {
  for (const Wiring wiring : {Wiring::kPostNorm, Wiring::kReversible}) {
    ModelConfig c = small(Family::kEncoderDecoder);
    c.decoder_layers = 2;
    c.wiring = wiring;
    c.positions = PositionKind::kRotary;
    // Sources that differ where targets do not, and the other way round.
    const Lengths targets = {5, 5, 1, 9, 9, 70};
    const Lengths sources = {8, 3, 3, 1, 1, 66};
    expect_packed(c, {c, targets, false, sources});
  }
}

// Attention numbers the sequences of each run from 0: what it drops must differ all the same.
TEST(Packed, DropoutDrawsAnewForEveryRun) {
  ModelConfig c = small(Family::kEncoder);
  c.dropout = 0.5F;
  Model model = random_model(c);
  const Sequences s(c, {6, 4, 6});
  std::vector<RandomKey> keys;
  model.mixer(0).set_observer([&](const AttentionInputs& in) { keys.push_back(in.dropout.key); });
  model.forward(s.packed(), 9, 1.0F);
  ASSERT_EQ(keys.size(), 3U);
  EXPECT_NE(keys[0], keys[1]);
  EXPECT_NE(keys[0], keys[2]);
  EXPECT_NE(keys[1], keys[2]);
}

std::string refusal(Model& model, const Batch& batch) {
  try {
    model.logits(batch);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Packed, WhatCannotBePackedIsRefused) {
  const std::vector<std::int32_t> tokens = {1, 2, 3};
  const Lengths lengths = {2, 1};
  Batch batch{.batch = 2, .length = 2, .tokens = tokens, .lengths = lengths, .packed = true};
  ModelConfig c = small(Family::kDecoder);
  Model model = random_model(c);
  EXPECT_EQ(refusal(model, batch), "");
  const Lengths none;
  batch.lengths = none;
  EXPECT_EQ(refusal(model, batch), "[model] 0 lengths for 2 packed sequences; need one each");
  const Lengths empty = {2, 0};
  batch.lengths = empty;
  EXPECT_EQ(refusal(model, batch), "[model] a packed sequence of no tokens; need at least 1");
  const Lengths short_of = {1, 1};
  batch.lengths = short_of;
  EXPECT_EQ(refusal(model, batch), "[embedding] 3 tokens; need 2 of 2 packed sequences");
  batch.lengths = lengths;
  std::vector<History> histories = model.make_histories(2, 4);
  EXPECT_THROW(model.logits(batch, histories), Error);
  Arena memory(1U << 16U);
  std::vector<DecodeCache> caches = model.make_caches(2, 4, memory);
  EXPECT_THROW(model.decode(batch, caches), Error);

  ModelConfig staged = small(Family::kEncoder);
  staged.layers = 4;
  staged.stages = "1|1";
  staged.wiring = Wiring::kPostNorm;
  Model pooled = random_model(staged);
  EXPECT_FALSE(pooled.packs());
  EXPECT_EQ(refusal(pooled, batch),
            "[model] packed sequences, and stages pool padding too; need padded "
            "ones");
}

// Booked again where the lengths change, and not where they do not.
TEST(Packed, LengthsAreWhatIsBooked) {
  ModelConfig c = small(Family::kDecoder);
  Model model = random_model(c);
  const Sequences longer(c, {9, 3});
  const Sequences shorter(c, {9, 2});
  model.logits(longer.packed());
  EXPECT_EQ(model.arena().peak(), model.inference_bytes(longer.packed()));
  model.logits(shorter.packed());
  EXPECT_EQ(model.arena().peak(), model.inference_bytes(shorter.packed()));
  EXPECT_LT(model.inference_bytes(shorter.packed()), model.inference_bytes(longer.packed()));
  EXPECT_LT(model.inference_bytes(longer.packed()), model.inference_bytes(longer.padded()));
}

}  // namespace packed_test
}  // namespace longspan
