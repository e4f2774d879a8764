// OLMo 1 and 2 (Groeneveld et al., 2024, arXiv:2402.00838; arXiv:2501.00656): 1 has norms without
// weights, 2 norms what branches give, and queries and keys of all heads together.
#include "longspan/models/families/llama_like.h"

namespace longspan {

namespace olmo_family {

namespace {

ModelConfig body(const ConfigFields& f) {
  ModelConfig c = llama_sizes(f, {.epsilon = 1e-5});
  c.tied = f.flag("tie_word_embeddings", false);
  set_rotary(f, {}, c);
  const bool bias = f.flag("attention_bias", false);
  set_biases({.projections = bias, .output = bias}, c);
  return c;
}

ModelConfig config_1(const ConfigFields& f) {
  ModelConfig c = body(f);
  c.norm = NormKind::kLayer;
  c.norm_epsilon = 1e-5F;
  c.norm_weight = false;
  c.norm_bias = false;
  f.refuse(f.has("clip_qkv"), "queries, keys and values that are clipped");
  return c;
}

ModelConfig config_2(const ConfigFields& f) {
  ModelConfig c = body(f);
  c.wiring = Wiring::kReordered;
  c.query_norm = QueryNorm::kWhole;
  return c;
}

void place_1(Placer& p) {
  p.whole(p.base("embed_tokens.weight"), "embedding.tokens");
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    place_llama_attention(p, i);
    place_llama_feed_forward(p, i);
  }
}

void place_2(Placer& p) {
  place_llama_ends(p);
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = p.source_layer("layers", i);
    place_llama_attention(p, i);
    p.norm(from + ".post_attention_layernorm", p.layer(i) + ".attention_norm");
    place_llama_feed_forward(p, i);
    p.norm(from + ".post_feedforward_layernorm", p.layer(i) + ".feed_forward_norm");
  }
}

constexpr CheckpointHead kHeads1[] = {
    {"OlmoForCausalLM", &heads::causal, &heads::place_causal},
    {"OlmoModel", &heads::bare, &heads::nothing},
};
constexpr CheckpointHead kHeads2[] = {
    {"Olmo2ForCausalLM", &heads::causal, &heads::place_causal},
    {"Olmo2Model", &heads::bare, &heads::nothing},
};

}  // namespace

}  // namespace olmo_family

extern const CheckpointFamily kOlmo{"olmo", "model", &olmo_family::config_1, &olmo_family::place_1,
                                    olmo_family::kHeads1};
extern const CheckpointFamily kOlmo2{"olmo2", "model", &olmo_family::config_2,
                                     &olmo_family::place_2, olmo_family::kHeads2};

}  // namespace longspan
