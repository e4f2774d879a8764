// GPT-J (Wang & Komatsuzaki, 2021) and CodeGen (Nijkamp et al., 2022, arXiv:2203.13474): attention and
// feed-forward read the same norm, and a part of each head is rotated.
#include <fmt/format.h>

#include "longspan/models/families/biases.h"
#include "longspan/models/families/heads.h"
#include "longspan/models/families/rope.h"

namespace longspan {

namespace gptj_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  ModelConfig c;
  c.family = Family::kDecoder;
  c.wiring = Wiring::kParallelShared;
  c.layers = f.layers("n_layer");
  c.d_model = f.size("n_embd");
  c.heads = f.size("n_head");
  c.d_ff = f.size("n_inner", 4 * c.d_model);
  c.vocab = f.size("vocab_size");
  c.max_length = f.size("n_positions");
  c.activation = f.activation("activation_function", "gelu_new");
  c.norm_epsilon = f.number("layer_norm_epsilon", 1e-5);
  c.dropout = f.number("resid_pdrop", 0.0);
  c.tied = f.flag("tie_word_embeddings", false);
  c.positions = PositionKind::kRotary;
  c.rotary_interleaved = true;
  c.rotary = rotary_width(c, f.size("rotary_dim", 64));
  set_biases({.feed_forward = true}, c);
  f.pass_over({"n_ctx", "embd_pdrop", "attn_pdrop", "rotary", "scale_attn_weights",
               "gradient_checkpointing"});
  return c;
}

void place_ends(Placer& p) {
  p.whole(p.base("wte.weight"), "embedding.tokens");
  p.norm(p.base("ln_f"), "decoder.norm");
}

void place_gptj(Placer& p) {
  place_ends(p);
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = p.source_layer("h", i);
    const std::string attention = from + ".attn";
    const std::string to = p.layer(i);
    p.norm(from + ".ln_1", to + ".attention_norm");
    p.qkv(attention + ".q_proj", attention + ".k_proj", attention + ".v_proj", to + ".attention");
    p.attention_out(attention + ".out_proj", to + ".attention");
    p.linear(from + ".mlp.fc_in", to + ".feed_forward.in");
    p.linear(from + ".mlp.fc_out", to + ".feed_forward.out");
  }
}

void place_codegen(Placer& p) {
  constexpr std::size_t kGroups = 4;  // as it was cut over devices
  place_ends(p);
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = p.source_layer("h", i);
    const std::string to = p.layer(i);
    p.norm(from + ".ln_1", to + ".attention_norm");
    p.fused_qkv(from + ".attn.qkv_proj", to + ".attention", {.order = "qvk", .groups = kGroups});
    p.attention_out(from + ".attn.out_proj", to + ".attention");
    p.linear(from + ".mlp.fc_in", to + ".feed_forward.in");
    p.linear(from + ".mlp.fc_out", to + ".feed_forward.out");
  }
}

void causal(const ConfigFields& f, ModelConfig& c) {
  heads::causal(f, c);
  c.head_bias = true;
}

void place_causal(Placer& p) {
  heads::place_causal(p);
  p.whole("lm_head.bias", "head.output.bias");
}

constexpr CheckpointHead kGptjHeads[] = {
    {"GPTJForCausalLM", &causal, &place_causal},
    {"GPTJForSequenceClassification", &heads::last_classifier, &heads::place_score},
    {"GPTJModel", &heads::bare, &heads::nothing},
};
constexpr CheckpointHead kCodegenHeads[] = {
    {"CodeGenForCausalLM", &causal, &place_causal},
    {"CodeGenModel", &heads::bare, &heads::nothing},
};

}  // namespace

}  // namespace gptj_family

extern const CheckpointFamily kGptj{"gptj", "transformer", &gptj_family::config,
                                    &gptj_family::place_gptj, gptj_family::kGptjHeads};
extern const CheckpointFamily kCodegen{"codegen", "transformer", &gptj_family::config,
                                       &gptj_family::place_codegen, gptj_family::kCodegenHeads};

}  // namespace longspan
