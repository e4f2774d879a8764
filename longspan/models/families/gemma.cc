// Gemma 1 to 3 (Gemma Team, 2024, arXiv:2403.08295; arXiv:2408.00118; arXiv:2503.19786): norms that
// multiply by 1 + weight, token vectors times √d; from 2 on norms on both sides of each branch and
// windows in turn; 2 with capped scores, 3 with normed queries and keys and two rotary bases.
#include <fmt/format.h>

#include <cmath>

#include "longspan/models/families/llama_like.h"

namespace longspan {

namespace gemma_family {

namespace {

ModelConfig body(const ConfigFields& f, const LlamaDefaults& defaults) {
  f.pass_over({"hidden_act"});  // what counts is hidden_activation
  ModelConfig c = llama_sizes(f, defaults);
  c.activation = f.activation("hidden_activation", "gelu_pytorch_tanh");
  c.tied = f.flag("tie_word_embeddings", true);
  c.embedding_scale = true;
  const bool bias = f.flag("attention_bias", false);
  set_biases({.projections = bias, .output = bias}, c);
  return c;
}

ModelConfig config_1(const ConfigFields& f) {
  ModelConfig c = body(f, {.kv_heads = 16, .length = 8192, .head_width = 256});
  set_rotary(f, {}, c);
  return c;
}

// s = 1/√(query_pre_attn_scalar), where it is not what heads have anyway.
std::string score_options(const ConfigFields& f, const ModelConfig& c) {
  const double divisor = f.exact_number("query_pre_attn_scalar", 256.0);
  if (divisor == static_cast<double>(head_width_of(c))) return "";
  return fmt::format("scale={}", 1.0 / std::sqrt(divisor));
}

// Null is none.
double cap_of(const ConfigFields& f, const char* key, double absent_means) {
  return f.absent(key) ? absent_means : f.exact_number(key, 0.0);
}

ModelConfig config_2(const ConfigFields& f) {
  ModelConfig c = body(f, {.kv_heads = 4, .length = 8192, .head_width = 256});
  c.wiring = Wiring::kSandwich;
  set_rotary(f, {}, c);
  const double cap = cap_of(f, "attn_logit_softcapping", 50.0);
  c.logit_cap = static_cast<float>(cap_of(f, "final_logit_softcapping", 30.0));
  c.attention =
      attention_of(sliding_layers(f, c.layers, [](std::size_t i) { return i % 2 == 0; }),
                   with_option(score_options(f, c), cap > 0.0 ? fmt::format("cap={}", cap) : ""),
                   f.size("sliding_window", 4096));
  f.pass_over({"cache_implementation", "sliding_window_size"});
  return c;
}

ModelConfig config_3(const ConfigFields& f) {
  ModelConfig c = body(f, {.kv_heads = 4, .length = 131072, .head_width = 256});
  c.wiring = Wiring::kSandwich;
  c.query_norm = QueryNorm::kHead;
  if (!f.has("rope_theta")) c.rotary_base = 1e6F;
  // One entry for each kind of layer, or one for all but the base of those with a window.
  const bool by_layer =
      f.has("rope_parameters") && f.inside("rope_parameters").has("full_attention");
  set_rotary(by_layer ? f.inside("rope_parameters").inside("full_attention") : f, {.base = 1e6}, c);
  if (by_layer) {
    const ConfigFields own = f.inside("rope_parameters").inside("full_attention");
    c.rotary = rotary_scaling(own, c.max_length, c.max_length);
  }
  const std::size_t every = f.size("sliding_window_pattern", f.size("_sliding_window_pattern", 6));
  f.pass_over({"cache_implementation", "_sliding_window_pattern"});
  require(every > 0, "[{}] sliding_window_pattern is 0; need 1 or more", ConfigFields::kWho);
  const std::vector<bool> sliding =
      sliding_layers(f, c.layers, [&](std::size_t i) { return (i + 1) % every != 0; });
  const double cap = f.exact_number("attn_logit_softcapping", 0.0);
  c.logit_cap = f.number("final_logit_softcapping", 0.0);
  c.attention = attention_of(
      sliding, with_option(score_options(f, c), cap > 0.0 ? fmt::format("cap={}", cap) : ""),
      f.size("sliding_window", 4096));
  std::string local = fmt::format("base={}", f.exact_number("rope_local_base_freq", 10000.0));
  if (by_layer) {
    const ConfigFields own = f.inside("rope_parameters").inside("sliding_attention");
    local = with_option(fmt::format("base={}", own.exact_number("rope_theta", 10000.0)),
                        rotary_scaling(own, c.max_length, c.max_length));
  }
  std::vector<std::string> rotary;
  for (const bool slides : sliding) rotary.push_back(slides ? local : c.rotary);
  c.rotary = in_turn(rotary);
  f.refuse(f.flag("use_bidirectional_attention", false), "a decoder that sees what comes after");
  return c;
}

void place_attention(Placer& p, std::size_t i) {
  const std::string self = p.source_layer("layers", i) + ".self_attn";
  const std::string to = p.layer(i) + ".attention";
  p.qkv(self + ".q_proj", self + ".k_proj", self + ".v_proj", to);
  p.attention_out(self + ".o_proj", to);
  if (p.config().query_norm == QueryNorm::kNone) return;
  p.norm_above_one(self + ".q_norm", to + ".query_norm");
  p.norm_above_one(self + ".k_norm", to + ".key_norm");
}

void place_norms(Placer& p, std::size_t i) {
  const std::string from = p.source_layer("layers", i);
  const std::string to = p.layer(i);
  p.norm_above_one(from + ".input_layernorm", to + ".attention_norm");
  if (p.config().wiring != Wiring::kSandwich) {
    return p.norm_above_one(from + ".post_attention_layernorm", to + ".feed_forward_norm");
  }
  p.norm_above_one(from + ".post_attention_layernorm", to + ".attention_out_norm");
  p.norm_above_one(from + ".pre_feedforward_layernorm", to + ".feed_forward_norm");
  p.norm_above_one(from + ".post_feedforward_layernorm", to + ".feed_forward_out_norm");
}

void place(Placer& p) {
  p.whole(p.base("embed_tokens.weight"), "embedding.tokens");
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    place_norms(p, i);
    place_attention(p, i);
    place_llama_feed_forward(p, i);
  }
  p.norm_above_one(p.base("norm"), "decoder.norm");
}

constexpr CheckpointHead kHeads1[] = {
    {"GemmaForCausalLM", &heads::causal, &heads::place_causal},
    {"GemmaForSequenceClassification", &heads::last_classifier, &heads::place_score},
    {"GemmaModel", &heads::bare, &heads::nothing},
};
constexpr CheckpointHead kHeads2[] = {
    {"Gemma2ForCausalLM", &heads::causal, &heads::place_causal},
    {"Gemma2ForSequenceClassification", &heads::last_classifier, &heads::place_score},
    {"Gemma2Model", &heads::bare, &heads::nothing},
};
constexpr CheckpointHead kHeads3[] = {
    {"Gemma3ForCausalLM", &heads::causal, &heads::place_causal},
    {"Gemma3ForSequenceClassification", &heads::last_classifier, &heads::place_score},
    {"Gemma3TextModel", &heads::bare, &heads::nothing},
};

}  // namespace

}  // namespace gemma_family

extern const CheckpointFamily kGemma{"gemma", "model", &gemma_family::config_1,
                                     &gemma_family::place, gemma_family::kHeads1};
extern const CheckpointFamily kGemma2{"gemma2", "model", &gemma_family::config_2,
                                      &gemma_family::place, gemma_family::kHeads2};
extern const CheckpointFamily kGemma3{"gemma3_text", "model", &gemma_family::config_3,
                                      &gemma_family::place, gemma_family::kHeads3};

}  // namespace longspan
