// GPT-2 (Radford et al., 2019).
#include "longspan/models/families/heads.h"

namespace longspan {

namespace gpt2_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  ModelConfig c;
  c.family = Family::kDecoder;
  c.wiring = Wiring::kPreNorm;
  c.layers = f.layers("n_layer");
  c.d_model = f.size("n_embd");
  c.heads = f.size("n_head");
  c.d_ff = f.size("n_inner", 4 * c.d_model);
  c.vocab = f.size("vocab_size");
  c.max_length = f.has("n_positions") ? f.size("n_positions") : f.size("n_ctx");
  c.activation = f.activation("activation_function", "gelu_new");
  c.norm_epsilon = f.number("layer_norm_epsilon", 1e-5);
  c.dropout = f.number("resid_pdrop", 0.1);
  c.init_deviation = f.number("initializer_range", 0.02);
  c.tied = f.flag("tie_word_embeddings", true);
  f.pass_over({"n_ctx", "embd_pdrop", "attn_pdrop", "reorder_and_upcast_attn",
               "num_attention_heads", "num_hidden_layers", "hidden_size",
               "max_position_embeddings"});
  f.refuse(!f.flag("scale_attn_weights", true), "attention without a scale");
  f.refuse(f.flag("scale_attn_by_inverse_layer_idx", false), "a scale for each layer");
  f.refuse(f.flag("add_cross_attention", false), "cross-attention in a decoder without an encoder");
  return c;
}

void place(Placer& p) {
  p.whole("transformer.wte.weight", "embedding.tokens");
  p.whole("transformer.wpe.weight", "embedding.positions");
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = "transformer.h." + std::to_string(i);
    const std::string to = p.layer(i);
    p.norm(from + ".ln_1", to + ".attention_norm");
    p.conv1d(from + ".attn.c_attn", to + ".attention.qkv");
    p.conv1d(from + ".attn.c_proj", to + ".attention.out");
    p.norm(from + ".ln_2", to + ".feed_forward_norm");
    p.conv1d(from + ".mlp.c_fc", to + ".feed_forward.in");
    p.conv1d(from + ".mlp.c_proj", to + ".feed_forward.out");
  }
  p.norm("transformer.ln_f", "decoder.norm");
}

constexpr CheckpointHead kHeads[] = {
    {"GPT2LMHeadModel", &heads::causal, &heads::place_causal},
    {"GPT2ForSequenceClassification", &heads::last_classifier, &heads::place_score},
    {"GPT2Model", &heads::bare, &heads::nothing},
};

}  // namespace

}  // namespace gpt2_family

extern const CheckpointFamily kGpt2{"gpt2", "transformer", &gpt2_family::config,
                                    &gpt2_family::place, gpt2_family::kHeads};

}  // namespace longspan
