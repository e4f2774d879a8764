#include "longspan/models/families/bart_like.h"

#include <fmt/format.h>

namespace longspan {

ModelConfig bart_sizes(const ConfigFields& f) {
  ModelConfig c;
  c.family = Family::kEncoderDecoder;
  c.layers = f.layers("encoder_layers");
  c.decoder_layers = f.layers("decoder_layers");
  c.d_model = f.size("d_model");
  c.heads = f.size("encoder_attention_heads");
  c.decoder_heads = f.size("decoder_attention_heads");
  if (c.decoder_heads == c.heads) c.decoder_heads = 0;
  c.d_ff = f.size("encoder_ffn_dim");
  c.decoder_d_ff = f.size("decoder_ffn_dim");
  if (c.decoder_d_ff == c.d_ff) c.decoder_d_ff = 0;
  c.vocab = f.size("vocab_size");
  c.max_length = f.size("max_position_embeddings", 1024);
  c.activation = f.activation("activation_function", "gelu");
  c.norm_epsilon = 1e-5F;
  c.dropout = f.number("dropout", 0.1);
  c.init_deviation = f.number("init_std", 0.02);
  c.padding_token = f.token("pad_token_id");
  c.embedding_scale = f.flag("scale_embedding", false);
  c.tied = f.flag("tie_word_embeddings", true);
  f.pass_over({"activation_dropout",
               "encoder_layerdrop",
               "decoder_layerdrop",
               "num_hidden_layers",
               "normalize_embedding",
               "extra_pos_embeddings",
               "force_bos_token_to_be_generated",
               "static_position_embeddings",
               "add_bias_logits",
               "add_final_layer_norm",
               "normalize_before",
               "decoder_start_token_id",
               "layernorm_variant",
               "gradient_checkpointing",
               "do_blenderbot_90_layernorm",
               "unk_token_id",
               "extra_layer_norm",
               "classif_dropout",
               "hidden_size",
               "num_attention_heads"});
  return c;
}

void place_bart_tables(Placer& p, bool positions) {
  p.whole(p.base("shared.weight"), "embedding.tokens");
  p.second_name(p.base("encoder.embed_tokens.weight"), "embedding.tokens");
  p.second_name(p.base("decoder.embed_tokens.weight"), "embedding.tokens");
  if (positions) {
    p.whole(p.base("encoder.embed_positions.weight"), "embedding.positions");
    p.whole(p.base("decoder.embed_positions.weight"), "decoder_embedding.positions");
  }
  if (p.config().embedding_norm) {
    p.norm(p.base("encoder.layernorm_embedding"), "embedding.norm");
    p.norm(p.base("decoder.layernorm_embedding"), "decoder_embedding.norm");
  }
}

void place_bart_layer(Placer& p, const BartNames& names, std::size_t i) {
  const std::string from = p.base(fmt::format("{}.layers.{}", names.stack, i));
  const std::string to = fmt::format("{}.{}", names.stack, i);
  p.qkv(from + names.q, from + names.k, from + names.v, to + ".attention");
  p.attention_out(from + names.out, to + ".attention");
  p.norm(from + ".self_attn_layer_norm", to + ".attention_norm");
  if (std::string_view(names.stack) == "decoder") {
    const std::string cross = from + ".encoder_attn";
    p.cross_qkv(cross + ".q_proj", cross + ".k_proj", cross + ".v_proj", to + ".cross");
    p.attention_out(cross + ".out_proj", to + ".cross");
    p.norm(from + ".encoder_attn_layer_norm", to + ".cross_norm");
  }
  p.linear(from + ".fc1", to + ".feed_forward.in");
  p.linear(from + ".fc2", to + ".feed_forward.out");
  p.norm(from + ".final_layer_norm", to + ".feed_forward_norm");
}

void place_bart(Placer& p) {
  place_bart_tables(p, p.config().positions == PositionKind::kLearned);
  for (std::size_t i = 0; i < p.config().layers; ++i) place_bart_layer(p, {.stack = "encoder"}, i);
  for (std::size_t i = 0; i < p.config().decoder_layers; ++i) {
    place_bart_layer(p, {.stack = "decoder"}, i);
  }
  if (p.config().wiring == Wiring::kPostNorm) return;
  p.norm(p.base("encoder.layer_norm"), "encoder.norm");
  p.norm(p.base("decoder.layer_norm"), "decoder.norm");
}

void generation(const ConfigFields& f, ModelConfig& c) {
  heads::causal(f, c);
  c.head_constant_bias = true;
}

void place_generation(Placer& p) {
  p.output_weight("lm_head.weight");
  p.whole("final_logits_bias", "head.output.constant");
}

}  // namespace longspan
