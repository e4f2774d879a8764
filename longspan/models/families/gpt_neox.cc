// GPT-NeoX (Black et al., 2022, arXiv:2204.06745) and Pythia: attention and feed-forward side by side,
// each with its norm, and a quarter of each head rotated.
#include "longspan/models/families/biases.h"
#include "longspan/models/families/heads.h"
#include "longspan/models/families/rope.h"

namespace longspan {

namespace gpt_neox_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  ModelConfig c;
  c.family = Family::kDecoder;
  c.wiring = f.flag("use_parallel_residual", true) ? Wiring::kParallel : Wiring::kPreNorm;
  c.layers = f.layers("num_hidden_layers");
  c.d_model = f.size("hidden_size");
  c.heads = f.size("num_attention_heads");
  c.d_ff = f.size("intermediate_size");
  c.vocab = f.size("vocab_size");
  c.max_length = f.size("max_position_embeddings");
  c.activation = f.activation("hidden_act", "gelu");
  c.norm_epsilon = f.number("layer_norm_eps", 1e-5);
  c.dropout = f.number("hidden_dropout", 0.0);
  c.tied = f.flag("tie_word_embeddings", false);
  set_rotary(f,
             {.base = f.exact_number("rotary_emb_base", 10000.0),
              .share = f.exact_number("rotary_pct", 0.25)},
             c);
  const bool bias = f.flag("attention_bias", true);
  set_biases({.projections = bias, .output = bias, .feed_forward = true}, c);
  return c;
}

void place(Placer& p) {
  p.whole(p.base("embed_in.weight"), "embedding.tokens");
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = p.source_layer("layers", i);
    const std::string to = p.layer(i);
    p.norm(from + ".input_layernorm", to + ".attention_norm");
    p.fused_qkv(from + ".attention.query_key_value", to + ".attention",
                {.groups = p.config().heads});
    p.attention_out(from + ".attention.dense", to + ".attention");
    p.norm(from + ".post_attention_layernorm", to + ".feed_forward_norm");
    p.linear(from + ".mlp.dense_h_to_4h", to + ".feed_forward.in");
    p.linear(from + ".mlp.dense_4h_to_h", to + ".feed_forward.out");
  }
  p.norm(p.base("final_layer_norm"), "decoder.norm");
}

void place_causal(Placer& p) { p.output_weight("embed_out.weight"); }

constexpr CheckpointHead kHeads[] = {
    {"GPTNeoXForCausalLM", &heads::causal, &place_causal},
    {"GPTNeoXForSequenceClassification", &heads::last_classifier, &heads::place_score},
    {"GPTNeoXModel", &heads::bare, &heads::nothing},
};

}  // namespace

}  // namespace gpt_neox_family

extern const CheckpointFamily kGptNeox{"gpt_neox", "gpt_neox", &gpt_neox_family::config,
                                       &gpt_neox_family::place, gpt_neox_family::kHeads};

}  // namespace longspan
