// Qwen 1.5 to 3 (Bai et al., 2023, arXiv:2309.16609; arXiv:2407.10671; arXiv:2505.09388): biases of
// queries, keys and values, or norms of queries and keys in their place.
#include "longspan/models/families/llama_like.h"

namespace longspan {

namespace qwen_family {

namespace {

ModelConfig body(const ConfigFields& f, std::size_t head_width) {
  ModelConfig c = llama_sizes(f, {.kv_heads = 32, .length = 32768, .head_width = head_width});
  c.tied = f.flag("tie_word_embeddings", false);
  set_rotary(f, {}, c);
  const std::size_t window = f.size_or_none("sliding_window", 4096);
  const bool slides = f.flag("use_sliding_window", false) && window > 0;
  const std::size_t first = f.size("max_window_layers", 28);
  c.attention = attention_of(
      sliding_layers(f, c.layers, [&](std::size_t i) { return slides && i >= first; }), "", window);
  return c;
}

ModelConfig config_2(const ConfigFields& f) {
  ModelConfig c = body(f, 0);
  set_biases({.projections = true}, c);
  f.pass_over({"use_mrope"});
  f.refuse(f.flag("use_mrope", false), "rotary positions of several axes");
  return c;
}

ModelConfig config_3(const ConfigFields& f) {
  ModelConfig c = body(f, 128);
  const bool bias = f.flag("attention_bias", false);
  set_biases({.projections = bias, .output = bias}, c);
  c.query_norm = QueryNorm::kHead;
  return c;
}

constexpr CheckpointHead kHeads2[] = {
    {"Qwen2ForCausalLM", &heads::causal, &heads::place_causal},
    {"Qwen2ForSequenceClassification", &heads::last_classifier, &heads::place_score},
    {"Qwen2Model", &heads::bare, &heads::nothing},
};
constexpr CheckpointHead kHeads3[] = {
    {"Qwen3ForCausalLM", &heads::causal, &heads::place_causal},
    {"Qwen3ForSequenceClassification", &heads::last_classifier, &heads::place_score},
    {"Qwen3Model", &heads::bare, &heads::nothing},
};

}  // namespace

}  // namespace qwen_family

extern const CheckpointFamily kQwen2{"qwen2", "model", &qwen_family::config_2, &place_llama,
                                     qwen_family::kHeads2};
extern const CheckpointFamily kQwen3{"qwen3", "model", &qwen_family::config_3, &place_llama,
                                     qwen_family::kHeads3};

}  // namespace longspan
