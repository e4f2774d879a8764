// Token by token with the cache gives what the whole sequence gives.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <cmath>
#include <iterator>

#include "longspan/attention/registry.h"
#include "longspan/base/error.h"
#include "longspan/models/model.h"
#include "longspan/testing/check_layer.h"
#include "longspan/testing/reference_cases.h"
#include "longspan/testing/test_name.h"

namespace longspan {
namespace decode_test {

using testing::BatchData;

struct Case {
  std::string name;
  ModelConfig config;
  std::size_t prefill;
};

// What released models have beside that.
std::vector<Case> released_cases() {
  ModelConfig c;
  c.layers = 2;
  c.d_model = 24;
  c.heads = 4;
  c.kv_heads = 2;
  c.vocab = 17;
  c.max_length = 80;
  c.positions = PositionKind::kRotary;
  c.query_norm = QueryNorm::kHead;
  c.logit_scale = 0.25F;
  c.logit_cap = 3.0F;
  ModelConfig sandwich = c;
  sandwich.wiring = Wiring::kSandwich;
  sandwich.head_width = 10;
  sandwich.attention = "flash:before=7,sinks=true|flash:cap=2,sinks=true";
  sandwich.rotary = "width=4|none";
  ModelConfig reordered = c;
  reordered.wiring = Wiring::kReordered;
  reordered.query_norm = QueryNorm::kWhole;
  reordered.rotary = "scaling=yarn,factor=8,original=16";
  ModelConfig parallel = c;
  parallel.wiring = Wiring::kParallel;
  parallel.positions = PositionKind::kSinusoidalHalves;
  parallel.attention = "flash:distances=alibi";
  parallel.head_constant_bias = true;
  ModelConfig shared = c;
  shared.wiring = Wiring::kParallelShared;
  shared.shared_layers = true;
  shared.attention = "flash:distances=buckets,buckets=8,span=20,two_sided=false";
  ModelConfig narrow = c;
  narrow.positions = PositionKind::kLearned;
  narrow.embedding_width = 10;
  narrow.embedding_projects_tokens = true;
  narrow.tied = false;
  narrow.first_norm = false;
  return {{"sandwich", sandwich, 13},
          {"reordered", reordered, 1},
          {"parallel", parallel, 66},
          {"parallel_shared", shared, 5},
          {"narrow", narrow, 2}};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Mechanism& mechanism : mechanisms()) {
    const Abilities can = abilities_of(mechanism.name);
    if (!can.decode) continue;
    for (const char* wiring : {"post", "pre", "reversible"}) {
      for (const char* positions : {"none", "learned", "sinusoidal", "rotary"}) {
        ModelConfig c;
        c.attention = std::string(mechanism.name);
        c.layers = 2;
        c.d_model = 24;
        c.heads = 4;
        c.kv_heads = can.grouped_heads ? 2 : 0;
        c.vocab = 17;
        c.max_length = 80;
        c.wiring = wiring;
        c.positions = positions;
        c.rotary_interleaved = c.wiring == Wiring::kPreNorm;
        c.dropout = can.dropout ? 0.2F : 0.0F;  // must not act here
        const std::size_t prefill = c.wiring == Wiring::kPostNorm  ? 1
                                    : c.wiring == Wiring::kPreNorm ? 13
                                                                   : 66;
        all.push_back({c.attention + "_" + wiring + "_" + positions, c, prefill});
      }
    }
  }
  std::ranges::copy(released_cases(), std::back_inserter(all));
  ModelConfig convolved;
  convolved.attention = "conv:width=3|flash";
  convolved.layers = 2;
  convolved.d_model = 24;
  convolved.heads = 4;
  convolved.vocab = 17;
  convolved.max_length = 80;
  for (const std::size_t prefill : {1, 2, 5}) {
    all.push_back({fmt::format("conv_{}", prefill), convolved, prefill});
  }
  ModelConfig chosen = convolved;
  chosen.attention = "flash";
  chosen.feed_forward =
      "dense|experts:experts=6,top=2,capacity=0,score=sigmoid,correction=1,groups=3,top_groups=2,"
      "scaling=1.5,shared=10,shared_gate=1";
  all.push_back({"experts", chosen, 5});
  for (const char* form : {"auto", "expanded", "absorbed"}) {
    for (const char* positions : {"none", "rotary"}) {
      ModelConfig c = convolved;
      c.attention = fmt::format("latent:rank=9,query_rank=7,nope=5,rope=4,value=3,form={}", form);
      c.positions = positions;
      if (c.positions == PositionKind::kRotary) c.attention += "|flash";
      all.push_back({fmt::format("latent_{}_{}", form, positions), c, 13});
    }
  }
  ModelConfig unbiased = convolved;
  unbiased.attention = "flash:key_bias=false|full:key_bias=false";
  all.push_back({"unbiased_keys", unbiased, 5});
  return all;
}

class Decode : public ::testing::TestWithParam<Case> {};

// So many new tokens at a time, until there are 73.
void expect_whole_sequence(const Case& c, std::size_t first, std::size_t others) {
  Model model(c.config);
  model.allocate(1);
  testing::randomize(model.parameters(), 5);
  constexpr std::size_t kBatch = 2;
  constexpr std::size_t kLength = 73;
  const std::size_t vocab = c.config.vocab;
  const BatchData data(c.config, {.batch = kBatch, .length = kLength}, 3);
  const ConstMatrix whole = model.logits(data.view());
  const std::vector<float> want(whole.data, whole.data + whole.size());
  float largest = 0.0F;
  for (const float w : want) largest = std::max(largest, std::abs(w));

  Arena memory(model.cache_bytes(kBatch, kLength));
  std::vector<DecodeCache> caches = model.make_caches(kBatch, kLength, memory);
  std::size_t done = 0;
  while (done < kLength) {
    const std::size_t count = std::min(done == 0 ? first : others, kLength - done);
    std::vector<std::int32_t> tokens;
    for (std::size_t b = 0; b < kBatch; ++b) {
      for (std::size_t i = 0; i < count; ++i) tokens.push_back(data.tokens[b * kLength + done + i]);
    }
    const ConstMatrix got =
        model.decode({.batch = kBatch, .length = count, .tokens = tokens}, caches);
    done += count;
    ASSERT_EQ(got.rows, kBatch);
    ASSERT_EQ(got.cols, vocab);
    for (std::size_t b = 0; b < kBatch; ++b) {
      for (std::size_t j = 0; j < vocab; ++j) {
        ASSERT_NEAR(got.row(b)[j], want[(b * kLength + done - 1) * vocab + j], 4e-6F * largest)
            << "sequence " << b << ", token " << done - 1;
      }
    }
    for (const DecodeCache& cache : caches) ASSERT_EQ(cache.used, done);
  }
}

TEST_P(Decode, EqualsTheWholeSequence) { expect_whole_sequence(GetParam(), GetParam().prefill, 1); }

// As long prompts are read.
TEST_P(Decode, TakesChunks) { expect_whole_sequence(GetParam(), 31, 17); }

// Texts that part and meet: each goes on from another's tokens, as if they had been its own.
TEST_P(Decode, GoesOnFromACopy) {
  const Case& c = GetParam();
  Model model(c.config);
  model.allocate(1);
  testing::randomize(model.parameters(), 5);
  constexpr std::size_t kLength = 73;
  constexpr std::size_t kTexts = 3;
  const std::size_t vocab = c.config.vocab;
  const BatchData data(c.config, {.batch = 1, .length = kLength}, 3);
  const ConstMatrix whole = model.logits(data.view());
  const std::vector<float> want(whole.data, whole.data + whole.size());
  float largest = 0.0F;
  for (const float w : want) largest = std::max(largest, std::abs(w));

  Arena memory(model.cache_bytes(1, kLength) + model.cache_bytes(kTexts, kLength));
  std::vector<DecodeCache> one = model.make_caches(1, kLength, memory);
  std::vector<DecodeCache> caches = model.make_caches(kTexts, kLength, memory);
  const std::span<const std::int32_t> text = data.tokens;
  model.decode({.batch = 1, .length = c.prefill, .tokens = text.first(c.prefill)}, one);
  for (std::size_t i = 0; i < caches.size(); ++i) caches[i].take(one[i]);
  for (std::size_t done = c.prefill; done < c.prefill + 3; ++done) {
    const std::int32_t own = text[done];
    const std::int32_t other = (own + 1) % static_cast<std::int32_t>(vocab);
    const bool last = done == c.prefill + 2;
    // Text 1 is the one that is known; text 2 becomes it before the last token.
    const std::vector<std::int32_t> tokens = {other, own, last ? own : other};
    if (last) {
      for (const DecodeCache& cache : caches) cache.copy_sequence(1, 2);
    }
    const ConstMatrix got = model.decode({.batch = kTexts, .length = 1, .tokens = tokens}, caches);
    for (std::size_t row = 1; row < (last ? 3U : 2U); ++row) {
      for (std::size_t j = 0; j < vocab; ++j) {
        ASSERT_NEAR(got.row(row)[j], want[done * vocab + j], 4e-6F * largest)
            << "text " << row << ", token " << done;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Decode, ::testing::ValuesIn(cases()), [](const auto& instance) {
  return testing::test_name(instance.param.name);
});

// A cache of layers with a window holds what they read and no more: it forgets while it is filled,
// from long prompts too.
TEST(DecodeWindow, CacheRolls) {
  constexpr std::size_t kLength = 1500;
  ModelConfig c;
  c.layers = 2;
  c.d_model = 16;
  c.heads = 2;
  c.kv_heads = 1;
  c.vocab = 13;
  c.max_length = kLength;
  c.positions = PositionKind::kRotary;
  c.attention = "flash:before=70,sinks=true|flash:before=3";
  Model model(c);
  model.allocate(1);
  testing::randomize(model.parameters(), 5);
  const BatchData data(c, {.batch = 2, .length = kLength}, 3);
  const ConstMatrix whole = model.logits(data.view());
  const std::vector<float> want(whole.data, whole.data + whole.size());
  Arena memory(model.cache_bytes(2, kLength));
  EXPECT_LT(memory.capacity(), std::size_t{2} * 4 * 2 * 8 * 2 * kLength / 2);  // half of all
  std::vector<DecodeCache> caches = model.make_caches(2, kLength, memory);
  std::size_t done = 0;
  for (const std::size_t count : {5U, 900U, 1U, 1U, 130U, 1U, 64U, 1U, 397U}) {
    std::vector<std::int32_t> tokens;
    for (std::size_t b = 0; b < 2; ++b) {
      const auto from = data.tokens.begin() + static_cast<std::ptrdiff_t>(b * kLength + done);
      tokens.insert(tokens.end(), from, from + static_cast<std::ptrdiff_t>(count));
    }
    const ConstMatrix got = model.decode({.batch = 2, .length = count, .tokens = tokens}, caches);
    done += count;
    for (std::size_t b = 0; b < 2; ++b) {
      for (std::size_t j = 0; j < c.vocab; ++j) {
        const float expected = want[(b * kLength + done - 1) * c.vocab + j];
        ASSERT_NEAR(got.row(b)[j], expected, 2e-5F) << done;
      }
    }
  }
  EXPECT_EQ(done, kLength);
}

// The encoder runs once; what it gave is in the caches of cross-attention from then on.
TEST(DecodeTranslator, EqualsTheWholeSequence) {
  for (const std::string cross : {"flash", "performer", "linear", "linformer"}) {
    for (const std::string wiring : {"post", "pre", "reversible"}) {
      SCOPED_TRACE(cross + " " + wiring);
      ModelConfig c;
      c.family = Family::kEncoderDecoder;
      c.layers = 2;
      c.decoder_layers = 2;
      c.d_model = 16;
      c.heads = 2;
      c.vocab = 13;
      c.max_length = 20;
      c.wiring = wiring;
      c.cross_attention = cross;
      Model model(c);
      model.allocate(1);
      testing::randomize(model.parameters(), 5);
      constexpr std::size_t kBatch = 3;
      constexpr std::size_t kLength = 9;
      constexpr std::size_t kSource = 12;
      const BatchData data(c, {.batch = kBatch, .length = kLength, .source_length = kSource}, 3);
      std::vector<std::int32_t> source_lengths = {12, 5, 8};
      Batch batch = data.view();
      batch.lengths = {};
      batch.source_lengths = source_lengths;
      const ConstMatrix whole = model.logits(batch);
      const std::vector<float> want(whole.data, whole.data + whole.size());
      ASSERT_TRUE(model.decodes());
      Arena memory(model.cache_bytes(kBatch, kLength, kSource));
      std::vector<DecodeCache> caches = model.make_caches(kBatch, kLength, memory, kSource);
      for (std::size_t i = 0; i < kLength; ++i) {
        std::vector<std::int32_t> tokens;
        for (std::size_t b = 0; b < kBatch; ++b) tokens.push_back(data.tokens[b * kLength + i]);
        Batch one = batch;
        one.length = 1;
        one.tokens = tokens;
        one.targets = {};
        if (i > 0) one.source = {};  // not read again
        const ConstMatrix got = model.decode(one, caches);
        for (std::size_t b = 0; b < kBatch; ++b) {
          for (std::size_t j = 0; j < c.vocab; ++j) {
            ASSERT_NEAR(got.row(b)[j], want[(b * kLength + i) * c.vocab + j], 1e-5F) << i;
          }
        }
      }
    }
  }
}

// Sound is read with the first token, and not again.
TEST(DecodeSound, EqualsTheWholeSequence) {
  ModelConfig c;
  c.family = Family::kEncoderDecoder;
  c.layers = 1;
  c.decoder_layers = 2;
  c.d_model = 16;
  c.heads = 2;
  c.vocab = 13;
  c.max_length = 6;
  c.max_source_length = 11;
  c.stem = StemKind::kSound;
  c.channels = 3;
  c.attention = "flash:key_bias=false";
  Model model(c);
  model.allocate(1);
  testing::randomize(model.parameters(), 5);
  const BatchData data(c, {.batch = 2, .length = 6, .source_length = 10}, 3);
  const ConstMatrix whole = model.logits(data.view());
  const std::vector<float> want(whole.data, whole.data + whole.size());
  Arena memory(model.cache_bytes(2, 6, 10));
  std::vector<DecodeCache> caches = model.make_caches(2, 6, memory, 10);
  for (std::size_t i = 0; i < 6; ++i) {
    const std::vector<std::int32_t> tokens = {data.tokens[i], data.tokens[6 + i]};
    Batch one = data.view();
    one.length = 1;
    one.tokens = tokens;
    one.targets = {};
    if (i > 0) one.features = {};
    const ConstMatrix got = model.decode(one, caches);
    for (std::size_t j = 0; j < 2 * c.vocab; ++j) {
      ASSERT_NEAR(got.row(j / c.vocab)[j % c.vocab],
                  want[(j / c.vocab * 6 + i) * c.vocab + j % c.vocab], 1e-5F)
          << i;
    }
  }
}

ModelConfig plain(const std::string& positions) {
  ModelConfig c;
  c.layers = 1;
  c.d_model = 8;
  c.vocab = 5;
  c.max_length = 4;
  c.positions = positions;
  return c;
}

std::string error_of(Model& model, const Batch& batch, std::span<DecodeCache> caches) {
  try {
    model.decode(batch, caches);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(DecodeErrors, SayWhatIsNeeded) {
  const std::vector<std::int32_t> tokens = {1, 2, 3};
  const std::vector<std::int32_t> lengths = {2};
  const Batch three{.batch = 1, .length = 3, .tokens = tokens};
  for (const char* positions : {"learned", "sinusoidal", "rotary"}) {
    Model model(plain(positions));
    model.allocate(1);
    Arena memory(model.cache_bytes(1, 5));
    std::vector<DecodeCache> caches = model.make_caches(1, 5, memory);
    EXPECT_EQ(error_of(model, three, {}), "[model] 0 caches; need one for each of 2 branches");
    EXPECT_EQ(error_of(model, three, caches), "");
    EXPECT_EQ(error_of(model, {.batch = 1, .length = 2, .tokens = {tokens.data(), 2}}, caches),
              "[model] 2 tokens behind 3; the model takes at most 4");
    EXPECT_EQ(caches.front().used, 3U) << "a refused call leaves the cache alone, " << positions;
  }
  Model model(plain("none"));
  model.allocate(1);
  Arena memory(model.cache_bytes(1, 3));
  std::vector<DecodeCache> caches = model.make_caches(1, 3, memory);
  Batch padded = three;
  padded.lengths = lengths;
  EXPECT_EQ(error_of(model, padded, caches),
            "[model] lengths of padded sequences while decoding; need whole sequences");
  const std::vector<std::int32_t> two = {1, 2};
  EXPECT_EQ(error_of(model, {.batch = 2, .length = 1, .tokens = two}, caches),
            "[model] 2 sequences; the caches are for 1");
  EXPECT_EQ(error_of(model, three, caches), "");
  EXPECT_EQ(error_of(model, {.batch = 1, .length = 1, .tokens = {tokens.data(), 1}}, caches),
            "[decode] 1 tokens do not fit behind 3 in a cache of 3");
  EXPECT_EQ(caches.front().used, 3U);

  ModelConfig encoder = plain("learned");
  encoder.family = Family::kEncoder;
  Model other(encoder);
  other.allocate(1);
  EXPECT_EQ(error_of(other, three, {}),
            "[model] encoder models cannot generate token by token; need a decoder with a "
            "language-model head");
}

}  // namespace decode_test
}  // namespace longspan
