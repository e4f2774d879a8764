// GPT (Radford et al., 2018): GPT-2's layers with the norms behind the sums.
#include "longspan/models/families/heads.h"

namespace longspan {

namespace openai_gpt_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  ModelConfig c;
  c.family = Family::kDecoder;
  c.wiring = Wiring::kPostNorm;
  c.layers = f.layers("n_layer");
  c.d_model = f.size("n_embd");
  c.heads = f.size("n_head");
  c.d_ff = 4 * c.d_model;
  c.vocab = f.size("vocab_size");
  c.max_length = f.size("n_positions");
  // What it calls gelu is the approximation by tanh.
  const std::string activation = f.text("afn", "gelu");
  c.activation = activation == "gelu" ? Activation::kGeluTanh : f.activation("afn", "gelu");
  c.norm_epsilon = f.number("layer_norm_epsilon", 1e-5);
  c.dropout = f.number("resid_pdrop", 0.1);
  c.init_deviation = f.number("initializer_range", 0.02);
  c.tied = f.flag("tie_word_embeddings", true);
  f.pass_over({"n_ctx", "embd_pdrop", "attn_pdrop", "predict_special_tokens", "n_special"});
  return c;
}

void place(Placer& p) {
  p.whole(p.base("tokens_embed.weight"), "embedding.tokens");
  p.whole(p.base("positions_embed.weight"), "embedding.positions");
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = p.source_layer("h", i);
    const std::string to = p.layer(i);
    p.conv1d(from + ".attn.c_attn", to + ".attention.qkv");
    p.conv1d(from + ".attn.c_proj", to + ".attention.out");
    p.norm(from + ".ln_1", to + ".attention_norm");
    p.conv1d(from + ".mlp.c_fc", to + ".feed_forward.in");
    p.conv1d(from + ".mlp.c_proj", to + ".feed_forward.out");
    p.norm(from + ".ln_2", to + ".feed_forward_norm");
  }
}

constexpr CheckpointHead kHeads[] = {
    {"OpenAIGPTLMHeadModel", &heads::causal, &heads::place_causal},
    {"OpenAIGPTForSequenceClassification", &heads::last_classifier, &heads::place_score},
    {"OpenAIGPTModel", &heads::bare, &heads::nothing},
};

}  // namespace

}  // namespace openai_gpt_family

extern const CheckpointFamily kOpenaiGpt{"openai-gpt", "transformer", &openai_gpt_family::config,
                                         &openai_gpt_family::place, openai_gpt_family::kHeads};

}  // namespace longspan
