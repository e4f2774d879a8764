// StableLM (Bellagente et al., 2024, arXiv:2402.17834): Llama with LayerNorm and a quarter of each head
// rotated.
#include "longspan/models/families/llama_like.h"

namespace longspan {

namespace stablelm_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  ModelConfig c = llama_sizes(f, {.kv_heads = 32, .length = 4096});
  c.norm = NormKind::kLayer;
  c.norm_epsilon = f.number("layer_norm_eps", 1e-5);
  if (f.flag("use_parallel_residual", false)) c.wiring = Wiring::kParallelShared;
  c.tied = f.flag("tie_word_embeddings", false);
  set_rotary(f, {.share = 0.25}, c);
  set_biases({.projections = f.flag("use_qkv_bias", false)}, c);
  f.refuse(f.flag("qk_layernorm", false), "a norm for each head of queries and keys");
  f.pass_over({"rotary_scaling_factor"});
  return c;
}

void place(Placer& p) {
  place_llama_ends(p);
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = p.source_layer("layers", i);
    p.norm(from + ".input_layernorm", p.layer(i) + ".attention_norm");
    place_llama_attention(p, i);
    if (p.config().wiring == Wiring::kPreNorm) {
      p.norm(from + ".post_attention_layernorm", p.layer(i) + ".feed_forward_norm");
    }
    place_llama_feed_forward(p, i);
  }
}

constexpr CheckpointHead kHeads[] = {
    {"StableLmForCausalLM", &heads::causal, &heads::place_causal},
    {"StableLmForSequenceClassification", &heads::last_classifier, &heads::place_score},
    {"StableLmModel", &heads::bare, &heads::nothing},
};

}  // namespace

}  // namespace stablelm_family

extern const CheckpointFamily kStablelm{"stablelm", "model", &stablelm_family::config,
                                        &stablelm_family::place, stablelm_family::kHeads};

}  // namespace longspan
