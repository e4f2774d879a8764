// StarCoder 2 (Lozhkov et al., 2024, arXiv:2402.19173): LayerNorm, biases everywhere, plain
// feed-forwards, a window in every layer.
#include "longspan/models/families/llama_like.h"

namespace longspan {

namespace starcoder2_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  ModelConfig c = llama_sizes(f, {.kv_heads = 2, .length = 4096});
  c.norm = NormKind::kLayer;
  c.gated = false;
  c.activation = f.activation("hidden_act", "gelu_pytorch_tanh");
  c.norm_epsilon = f.number("norm_epsilon", 1e-5);
  c.tied = f.flag("tie_word_embeddings", true);
  set_rotary(f, {}, c);
  c.attention = windowed("", f.size("sliding_window", 0));
  const bool bias = f.flag("use_bias", true);
  set_biases({.projections = bias, .output = bias, .feed_forward = bias}, c);
  f.pass_over({"activation_function", "layer_norm_epsilon", "attention_softmax_in_fp32",
               "scale_attention_softmax_in_fp32", "scale_attn_weights"});
  f.refuse(f.text("mlp_type", "default") != "default", "another kind of feed-forward");
  f.refuse(f.text("norm_type", "layer_norm") != "layer_norm", "another kind of norm");
  return c;
}

void place(Placer& p) {
  place_llama_ends(p);
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = p.source_layer("layers", i);
    p.norm(from + ".input_layernorm", p.layer(i) + ".attention_norm");
    place_llama_attention(p, i);
    p.norm(from + ".post_attention_layernorm", p.layer(i) + ".feed_forward_norm");
    p.linear(from + ".mlp.c_fc", p.layer(i) + ".feed_forward.in");
    p.linear(from + ".mlp.c_proj", p.layer(i) + ".feed_forward.out");
  }
}

constexpr CheckpointHead kHeads[] = {
    {"Starcoder2ForCausalLM", &heads::causal, &heads::place_causal},
    {"Starcoder2ForSequenceClassification", &heads::last_classifier, &heads::place_score},
    {"Starcoder2Model", &heads::bare, &heads::nothing},
};

}  // namespace

}  // namespace starcoder2_family

extern const CheckpointFamily kStarcoder2{"starcoder2", "model", &starcoder2_family::config,
                                          &starcoder2_family::place, starcoder2_family::kHeads};

}  // namespace longspan
