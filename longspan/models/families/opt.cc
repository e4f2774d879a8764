// OPT (Zhang et al., 2022, arXiv:2205.01068). Its positions begin at 2; the one of 350 million weights
// has its norms behind the sums, and token vectors of half the width.
#include "longspan/models/families/biases.h"
#include "longspan/models/families/heads.h"

namespace longspan {

namespace opt_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  ModelConfig c;
  c.family = Family::kDecoder;
  const bool before = f.flag("do_layer_norm_before", true);
  c.wiring = before ? Wiring::kPreNorm : Wiring::kPostNorm;
  c.final_norm = before && !f.flag("_remove_final_layer_norm", false);
  c.layers = f.layers("num_hidden_layers");
  c.d_model = f.size("hidden_size");
  c.heads = f.size("num_attention_heads");
  c.d_ff = f.size("ffn_dim");
  c.vocab = f.size("vocab_size");
  c.max_length = f.size("max_position_embeddings");
  c.position_offset = 2;
  c.activation = f.activation("activation_function", "relu");
  c.dropout = f.number("dropout", 0.1);
  c.padding_token = f.token("pad_token_id");
  c.tied = f.flag("tie_word_embeddings", true);
  c.embedding_width = f.size("word_embed_proj_dim", c.d_model);
  if (c.embedding_width == c.d_model) c.embedding_width = 0;
  c.embedding_projection_bias = false;
  c.embedding_projects_tokens = true;
  const bool bias = f.flag("enable_bias", true);
  set_biases({.projections = bias, .output = bias, .feed_forward = bias}, c);
  f.refuse(!f.flag("layer_norm_elementwise_affine", true), "norms without weights");
  f.pass_over({"layerdrop", "activation_dropout"});
  return c;
}

void place(Placer& p) {
  p.whole(p.base("decoder.embed_tokens.weight"), "embedding.tokens");
  p.whole(p.base("decoder.embed_positions.weight"), "embedding.positions");
  if (p.config().embedding_width > 0) {
    p.whole(p.base("decoder.project_in.weight"), "embedding.projection.weight");
  }
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = p.source_layer("decoder.layers", i);
    const std::string self = from + ".self_attn";
    const std::string to = p.layer(i);
    p.norm(from + ".self_attn_layer_norm", to + ".attention_norm");
    p.qkv(self + ".q_proj", self + ".k_proj", self + ".v_proj", to + ".attention");
    p.attention_out(self + ".out_proj", to + ".attention");
    p.norm(from + ".final_layer_norm", to + ".feed_forward_norm");
    p.linear(from + ".fc1", to + ".feed_forward.in");
    p.linear(from + ".fc2", to + ".feed_forward.out");
  }
  if (p.config().final_norm) p.norm(p.base("decoder.final_layer_norm"), "decoder.norm");
  if (p.config().output_width > 0) {
    p.whole(p.base("decoder.project_out.weight"), "head.transform.weight");
  }
}

// The body's last matrix, where there is one, stands before the softmax layer.
void narrow(ModelConfig& c) {
  if (c.embedding_width == 0) return;
  c.output_width = c.embedding_width;
  c.head_transform = true;
  c.head_transform_bias = false;
  c.head_activates = false;
}

void causal(const ConfigFields& f, ModelConfig& c) {
  heads::causal(f, c);
  narrow(c);
}

void bare(const ConfigFields& f, ModelConfig& c) {
  heads::bare(f, c);
  f.refuse(c.embedding_width > 0, "hidden states that are narrowed behind the last layer");
}

void classifier(const ConfigFields& f, ModelConfig& c) {
  heads::last_classifier(f, c);
  f.refuse(c.embedding_width > 0, "hidden states that are narrowed behind the last layer");
}

constexpr CheckpointHead kHeads[] = {
    {"OPTForCausalLM", &causal, &heads::place_causal},
    {"OPTForSequenceClassification", &classifier, &heads::place_score},
    {"OPTModel", &bare, &heads::nothing},
};

}  // namespace

}  // namespace opt_family

extern const CheckpointFamily kOpt{"opt", "model", &opt_family::config, &opt_family::place,
                                   opt_family::kHeads};

}  // namespace longspan
