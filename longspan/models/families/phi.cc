// Phi 1 to 3 (Gunasekar et al., 2023, arXiv:2306.11644; arXiv:2404.14219): up to 2 attention and
// feed-forward read one LayerNorm; 3 is Llama with fused matrices, a window and long rotary factors.
#include "longspan/models/families/llama_like.h"

namespace longspan {

namespace phi_family {

namespace {

ModelConfig config_1(const ConfigFields& f) {
  ModelConfig c = llama_sizes(f);
  c.norm = NormKind::kLayer;
  c.wiring = Wiring::kParallelShared;
  c.gated = false;
  c.activation = f.activation("hidden_act", "gelu_new");
  c.norm_epsilon = f.number("layer_norm_eps", 1e-5);
  c.tied = f.flag("tie_word_embeddings", false);
  set_rotary(f, {.share = 0.5}, c);
  set_biases({.projections = true, .output = true, .feed_forward = true}, c);
  f.refuse(f.flag("qk_layernorm", false), "norms of queries and keys with biases");
  return c;
}

void place_1(Placer& p) {
  p.whole(p.base("embed_tokens.weight"), "embedding.tokens");
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = p.source_layer("layers", i);
    const std::string self = from + ".self_attn";
    const std::string to = p.layer(i);
    p.norm(from + ".input_layernorm", to + ".attention_norm");
    p.qkv(self + ".q_proj", self + ".k_proj", self + ".v_proj", to + ".attention");
    p.attention_out(self + ".dense", to + ".attention");
    p.linear(from + ".mlp.fc1", to + ".feed_forward.in");
    p.linear(from + ".mlp.fc2", to + ".feed_forward.out");
  }
  p.norm(p.base("final_layernorm"), "decoder.norm");
}

void causal_1(const ConfigFields& f, ModelConfig& c) {
  heads::causal(f, c);
  c.head_bias = true;
}

void place_causal_1(Placer& p) {
  heads::place_causal(p);
  p.whole("lm_head.bias", "head.output.bias");
}

// The scaling of its rotary positions does not say for which length they were made; the config does.
ModelConfig config_3(const ConfigFields& f) {
  ModelConfig c = llama_sizes(f, {.length = 4096, .epsilon = 1e-5});
  c.tied = f.flag("tie_word_embeddings", false);
  const std::size_t original = f.size("original_max_position_embeddings", 4096);
  set_rotary(f, {.original = original}, c);
  c.attention = windowed("", f.size("sliding_window", 0));
  const bool bias = f.flag("attention_bias", false);
  f.refuse(bias || f.flag("mlp_bias", false) || f.flag("lm_head_bias", false),
           "biases in some layers");
  f.pass_over({"full_attn_mod", "interpolate_factor"});
  return c;
}

void place_3(Placer& p) {
  place_llama_ends(p);
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = p.source_layer("layers", i);
    const std::string to = p.layer(i);
    p.norm(from + ".input_layernorm", to + ".attention_norm");
    p.whole(from + ".self_attn.qkv_proj.weight", to + ".attention.qkv.weight");
    p.attention_out(from + ".self_attn.o_proj", to + ".attention");
    p.norm(from + ".post_attention_layernorm", to + ".feed_forward_norm");
    p.whole(from + ".mlp.gate_up_proj.weight", to + ".feed_forward.in.weight");
    p.linear(from + ".mlp.down_proj", to + ".feed_forward.out");
  }
}

constexpr CheckpointHead kHeads1[] = {
    {"PhiForCausalLM", &causal_1, &place_causal_1},
    {"PhiForSequenceClassification", &heads::last_classifier, &heads::place_score},
    {"PhiModel", &heads::bare, &heads::nothing},
};
constexpr CheckpointHead kHeads3[] = {
    {"Phi3ForCausalLM", &heads::causal, &heads::place_causal},
    {"Phi3ForSequenceClassification", &heads::last_classifier, &heads::place_score},
    {"Phi3Model", &heads::bare, &heads::nothing},
};

}  // namespace

}  // namespace phi_family

extern const CheckpointFamily kPhi{"phi", "model", &phi_family::config_1, &phi_family::place_1,
                                   phi_family::kHeads1};
extern const CheckpointFamily kPhi3{"phi3", "model", &phi_family::config_3, &phi_family::place_3,
                                    phi_family::kHeads3};

}  // namespace longspan
