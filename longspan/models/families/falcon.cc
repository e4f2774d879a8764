// Falcon (Almazrouei et al., 2023, arXiv:2311.16867), in its three forms: RW (norms in turn, a bias of
// the distance), 7B (one key head, one norm for both branches), 40B (groups of heads, two norms).
#include <fmt/format.h>

#include <cmath>

#include "longspan/models/families/biases.h"
#include "longspan/models/families/heads.h"
#include "longspan/models/families/rope.h"

namespace longspan {

namespace falcon_family {

namespace {

void set_form(const ConfigFields& f, ModelConfig& c) {
  const bool grouped = f.flag("new_decoder_architecture", false);
  const bool multi_query = f.flag("multi_query", true);
  const bool parallel = f.flag("parallel_attn", true);
  const std::size_t kv_heads = f.size("num_kv_heads", f.size("n_head_kv", c.heads));
  c.kv_heads = grouped ? kv_heads : multi_query ? 1 : c.heads;
  const std::size_t norms = f.size("num_ln_in_parallel_attn", 2);
  f.refuse(grouped && norms != 1 && norms != 2, "so many norms of parallel branches");
  f.refuse(grouped && !parallel, "groups of heads and branches in turn");
  if (grouped) {
    c.wiring = norms == 2 ? Wiring::kParallel : Wiring::kParallelShared;
  } else {
    c.wiring = parallel ? Wiring::kParallelShared : Wiring::kPreNorm;
  }
}

ModelConfig config(const ConfigFields& f) {
  ModelConfig c;
  c.family = Family::kDecoder;
  c.layers = f.size_of("num_hidden_layers", "n_layer");
  c.d_model = f.size("hidden_size");
  c.heads = f.size_of("num_attention_heads", "n_head");
  c.d_ff = f.size("ffn_hidden_size", 4 * c.d_model);
  c.vocab = f.size("vocab_size");
  c.max_length = f.size("max_position_embeddings", 2048);
  c.activation = f.activation("activation", "gelu");
  c.norm_epsilon = f.number("layer_norm_epsilon", 1e-5);
  c.dropout = f.number("hidden_dropout", 0.0);
  c.tied = f.flag("tie_word_embeddings", true);
  set_form(f, c);
  if (f.flag("alibi", false)) {
    // Its bias is scaled as the scores are.
    c.positions = PositionKind::kNone;
    c.attention = fmt::format("flash:distances=alibi,slope={}",
                              1.0 / std::sqrt(static_cast<double>(c.d_model / c.heads)));
    f.pass_over({"rope_theta", "rope_scaling"});
  } else {
    set_rotary(f, {}, c);
  }
  const bool bias = f.flag("bias", false);
  set_biases({.projections = bias, .output = bias, .feed_forward = bias}, c);
  f.pass_over({"apply_residual_connection_post_layernorm", "num_ln_in_parallel_attn",
               "num_kv_heads", "n_head_kv", "multi_query"});
  f.refuse(f.flag("apply_residual_connection_post_layernorm", false),
           "residuals that begin behind the norm");
  return c;
}

void place_norms(Placer& p, const std::string& from, const std::string& to) {
  if (p.config().wiring == Wiring::kParallel) {
    p.norm(from + ".ln_attn", to + ".attention_norm");
    p.norm(from + ".ln_mlp", to + ".feed_forward_norm");
    return;
  }
  p.norm(from + ".input_layernorm", to + ".attention_norm");
  if (p.config().wiring == Wiring::kPreNorm) {
    p.norm(from + ".post_attention_layernorm", to + ".feed_forward_norm");
  }
}

void place(Placer& p) {
  p.whole(p.base("word_embeddings.weight"), "embedding.tokens");
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = p.source_layer("h", i);
    const std::string to = p.layer(i);
    place_norms(p, from, to);
    p.fused_qkv(from + ".self_attention.query_key_value", to + ".attention",
                {.groups = p.config().kv_heads});
    p.attention_out(from + ".self_attention.dense", to + ".attention");
    p.linear(from + ".mlp.dense_h_to_4h", to + ".feed_forward.in");
    p.linear(from + ".mlp.dense_4h_to_h", to + ".feed_forward.out");
  }
  p.norm(p.base("ln_f"), "decoder.norm");
}

constexpr CheckpointHead kHeads[] = {
    {"FalconForCausalLM", &heads::causal, &heads::place_causal},
    {"FalconForSequenceClassification", &heads::last_classifier, &heads::place_score},
    {"FalconModel", &heads::bare, &heads::nothing},
};

}  // namespace

}  // namespace falcon_family

extern const CheckpointFamily kFalcon{"falcon", "transformer", &falcon_family::config,
                                      &falcon_family::place, falcon_family::kHeads};

}  // namespace longspan
