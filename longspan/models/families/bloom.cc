// BLOOM (BigScience, 2022, arXiv:2211.05100): a bias of the distance in place of positions, and a norm
// behind the embedding.
#include "longspan/models/families/heads.h"

namespace longspan {

namespace bloom_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  ModelConfig c;
  c.family = Family::kDecoder;
  c.layers = f.size_of("n_layer", "num_hidden_layers");
  c.d_model = f.size_of("hidden_size", "n_embed");
  c.heads = f.size_of("n_head", "num_attention_heads");
  c.d_ff = 4 * c.d_model;
  c.vocab = f.size("vocab_size");
  c.max_length = f.size("seq_length", 2048);  // what it was trained on; its distances have no end
  c.activation = Activation::kGeluTanh;
  c.norm_epsilon = f.number("layer_norm_epsilon", 1e-5);
  c.dropout = f.number("hidden_dropout", 0.0);
  c.tied = f.flag("tie_word_embeddings", true);
  c.padding_token = -1;
  c.positions = PositionKind::kNone;
  c.attention = "flash:distances=alibi";
  c.embedding_norm = true;
  f.refuse(f.flag("apply_residual_connection_post_layernorm", false),
           "residuals that begin behind the norm");
  f.pass_over({"pretraining_tp", "slow_but_exact", "masked_softmax_fusion", "bias_dropout_fusion",
               "attention_softmax_in_fp32", "skip_bias_add", "skip_bias_add_qkv", "n_inner",
               "offset_alibi", "unk_token_id", "seq_length", "n_embed"});
  return c;
}

void place(Placer& p) {
  p.whole(p.base("word_embeddings.weight"), "embedding.tokens");
  p.norm(p.base("word_embeddings_layernorm"), "embedding.norm");
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = p.source_layer("h", i);
    const std::string to = p.layer(i);
    p.norm(from + ".input_layernorm", to + ".attention_norm");
    p.fused_qkv(from + ".self_attention.query_key_value", to + ".attention",
                {.groups = p.config().heads});
    p.attention_out(from + ".self_attention.dense", to + ".attention");
    p.norm(from + ".post_attention_layernorm", to + ".feed_forward_norm");
    p.linear(from + ".mlp.dense_h_to_4h", to + ".feed_forward.in");
    p.linear(from + ".mlp.dense_4h_to_h", to + ".feed_forward.out");
  }
  p.norm(p.base("ln_f"), "decoder.norm");
}

constexpr CheckpointHead kHeads[] = {
    {"BloomForCausalLM", &heads::causal, &heads::place_causal},
    {"BloomForSequenceClassification", &heads::last_classifier, &heads::place_score},
    {"BloomModel", &heads::bare, &heads::nothing},
};

}  // namespace

}  // namespace bloom_family

extern const CheckpointFamily kBloom{"bloom", "transformer", &bloom_family::config,
                                     &bloom_family::place, bloom_family::kHeads};

}  // namespace longspan
