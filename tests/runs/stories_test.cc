// A model that somebody trained: stories260K, with rotary positions, RMSNorm, SwiGLU, grouped heads
// and a tied output layer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "longspan/io/json_file.h"
#include "longspan/io/npy.h"
#include "longspan/models/pretrained.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace stories_test {

const std::filesystem::path kDirectory =
    std::filesystem::path(LONGSPAN_SOURCE_DIR) / "tests/data/stories260k";
// Forty units of rounding of logits that reach 22, for ten sublayers and the output layer.
constexpr double kLogitTolerance = 1e-4;

std::vector<std::int32_t> greedy_tokens() {
  return read_json(kDirectory / "reference.json").at("greedy_ids").get<std::vector<std::int32_t>>();
}

Batch batch_of(std::span<const std::int32_t> tokens) {
  Batch batch;
  batch.batch = 1;
  batch.length = tokens.size();
  batch.tokens = tokens;
  return batch;
}

std::int32_t best(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
}

double largest_difference(ConstMatrix a, std::span<const float> b) {
  double worst = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(double{a.data[i]} - double{b[i]});
    if (!(difference <= worst)) worst = difference;
  }
  return worst;
}

class Stories : public ::testing::TestWithParam<const char*> {};

TEST_P(Stories, LogitsAreThoseOfTheReference) {
  Model model = load_pretrained(kDirectory, GetParam());
  const NpyArray<float> reference = read_npy<float>(kDirectory / "reference_logits.npy");
  const std::vector<std::int32_t> tokens = greedy_tokens();
  ASSERT_EQ(reference.shape, (std::vector<std::size_t>{64, 512}));
  const ConstMatrix logits = model.logits(batch_of(std::span(tokens).first(64)));
  ASSERT_EQ(logits.size(), reference.data.size());
  EXPECT_LE(largest_difference(logits, reference.data), kLogitTolerance);
}

TEST_P(Stories, LossOfTheGreedyTextIsThatOfTheReference) {
  Model model = load_pretrained(kDirectory, GetParam());
  const std::vector<std::int32_t> tokens = greedy_tokens();
  Batch batch = batch_of(std::span(tokens).first(tokens.size() - 1));
  batch.targets = std::span(tokens).subspan(1);
  const LossSum result = model.evaluate(batch);
  const double expected =
      read_json(kDirectory / "reference.json").at("mean_nll_of_greedy").get<double>();
  EXPECT_NEAR(result.loss / static_cast<double>(result.counted), expected, 1e-6);
  EXPECT_EQ(result.correct, tokens.size() - 1);  // greedy: every target is the best
}

TEST_P(Stories, GreedyDecodingWritesTheReferenceStory) {
  Model model = load_pretrained(kDirectory, GetParam());
  const std::vector<std::int32_t> expected = greedy_tokens();
  ASSERT_EQ(expected.size(), 257U);
  Arena memory(model.cache_bytes(1, expected.size()));
  std::vector<DecodeCache> caches = model.make_caches(1, expected.size(), memory);
  std::vector<std::int32_t> written = {expected.front()};
  while (written.size() < expected.size()) {
    const ConstMatrix logits = model.decode(batch_of({&written.back(), 1}), caches);
    written.push_back(best(logits.row(0)));
  }
  EXPECT_EQ(written, expected);
}

TEST_P(Stories, APromptInPiecesGivesTheLogitsOfTheWhole) {
  Model model = load_pretrained(kDirectory, GetParam());
  const NpyArray<float> reference = read_npy<float>(kDirectory / "reference_logits.npy");
  const std::vector<std::int32_t> tokens = greedy_tokens();
  Arena memory(model.cache_bytes(1, 64));
  std::vector<DecodeCache> caches = model.make_caches(1, 64, memory);
  std::size_t done = 0;
  for (const std::size_t piece : {17, 1, 31, 15}) {
    const ConstMatrix logits =
        model.decode(batch_of(std::span(tokens).subspan(done, piece)), caches);
    done += piece;
    EXPECT_LE(largest_difference(logits, std::span(reference.data).subspan((done - 1) * 512, 512)),
              kLogitTolerance)
        << done;
  }
}

// Hugging Face's rotation pairs (i, i + d/2) where llama2.c's pairs (2i, 2i + 1): the rows of each
// head of W_q and W_k are put in the other order, evens first.
std::vector<float> evens_first(const std::vector<float>& w, std::size_t d_head, std::size_t cols) {
  std::vector<float> out(w.size());
  for (std::size_t row = 0; row < w.size() / cols; ++row) {
    const std::size_t in_head = row % d_head;
    const std::size_t to = row - in_head + in_head / 2 + (in_head % 2) * d_head / 2;
    std::copy_n(w.begin() + static_cast<std::ptrdiff_t>(row * cols), cols,
                out.begin() + static_cast<std::ptrdiff_t>(to * cols));
  }
  return out;
}

std::string hugging_face_name(std::string name) {
  const std::vector<std::pair<std::string, std::string>> parts = {
      {"tok_embeddings", "embed_tokens"},       {"attention_norm", "input_layernorm"},
      {"ffn_norm", "post_attention_layernorm"}, {"attention.wq", "self_attn.q_proj"},
      {"attention.wk", "self_attn.k_proj"},     {"attention.wv", "self_attn.v_proj"},
      {"attention.wo", "self_attn.o_proj"},     {"feed_forward.w1", "mlp.gate_proj"},
      {"feed_forward.w2", "mlp.down_proj"},     {"feed_forward.w3", "mlp.up_proj"}};
  for (const auto& [from, to] : parts) {
    const std::size_t at = name.find(from);
    if (at != std::string::npos) name.replace(at, from.size(), to);
  }
  return "model." + name;
}

TEST_P(Stories, AsAHuggingFaceLlamaItIsTheSameModel) {
  const SafetensorsFile original(kDirectory / "model.safetensors");
  std::vector<std::vector<float>> data;
  std::vector<TensorSource> tensors;
  for (const TensorInfo& t : original.tensors()) {
    const bool rotated = t.name.ends_with("wq.weight") || t.name.ends_with("wk.weight");
    data.push_back(original.floats(t.name));
    if (rotated) data.back() = evens_first(data.back(), 8, 64);
    tensors.push_back({hugging_face_name(t.name), t.shape, data.back()});
  }
  const testing::TemporaryDirectory directory;
  write_safetensors(directory / "model.safetensors", tensors);
  write_json(directory / "config.json", {{"model_type", "llama"},
                                         {"architectures", {"LlamaForCausalLM"}},
                                         {"hidden_size", 64},
                                         {"intermediate_size", 172},
                                         {"num_hidden_layers", 5},
                                         {"num_attention_heads", 8},
                                         {"num_key_value_heads", 4},
                                         {"vocab_size", 512},
                                         {"max_position_embeddings", 512},
                                         {"rms_norm_eps", 1e-5},
                                         {"tie_word_embeddings", true}});
  Model model = load_pretrained(directory.path(), GetParam());
  const NpyArray<float> reference = read_npy<float>(kDirectory / "reference_logits.npy");
  const std::vector<std::int32_t> tokens = greedy_tokens();
  const ConstMatrix logits = model.logits(batch_of(std::span(tokens).first(64)));
  EXPECT_LE(largest_difference(logits, reference.data), kLogitTolerance);
}

INSTANTIATE_TEST_SUITE_P(Mechanisms, Stories, ::testing::Values("full", "flash"),
                         [](const auto& mechanism) { return std::string(mechanism.param); });

}  // namespace stories_test
}  // namespace longspan
