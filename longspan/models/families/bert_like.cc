#include "longspan/models/families/bert_like.h"

#include <fmt/format.h>

namespace longspan {

ModelConfig post_norm_encoder() {
  ModelConfig c;
  c.family = Family::kEncoder;
  c.wiring = Wiring::kPostNorm;
  c.norm_epsilon = 1e-12F;
  c.embedding_norm = true;
  c.head_bias = true;
  c.head_transform = true;
  return c;
}

ModelConfig bert_sizes(const ConfigFields& f, const BertDefaults& defaults) {
  ModelConfig c = post_norm_encoder();
  c.layers = f.layers("num_hidden_layers");
  c.d_model = f.size("hidden_size");
  c.d_ff = f.positive("intermediate_size");
  c.vocab = f.size("vocab_size");
  c.max_length = f.size("max_position_embeddings");
  c.token_types = f.size("type_vocab_size", defaults.token_types);
  c.activation = f.activation("hidden_act", defaults.activation);
  c.norm_epsilon = f.number("layer_norm_eps", defaults.epsilon);
  c.dropout = f.number("hidden_dropout_prob", 0.1);
  c.init_deviation = f.number("initializer_range", 0.02);
  c.padding_token = f.has("pad_token_id") ? f.token("pad_token_id") : defaults.padding_token;
  c.tied = f.flag("tie_word_embeddings", true);
  f.refuse(f.flag("is_decoder", false), "causal or cross-attention in an encoder");
  return c;
}

ModelConfig bert_config(const ConfigFields& f, const BertDefaults& defaults) {
  ModelConfig c = bert_sizes(f, defaults);
  c.heads = f.size("num_attention_heads");
  return c;
}

void offset_positions(ModelConfig& c) {
  c.position_offset = static_cast<std::size_t>(c.padding_token + 1);
  require(c.max_length > c.position_offset, "[{}] {} positions, the first of which is {}",
          ConfigFields::kWho, c.max_length, c.position_offset);
  c.max_length -= c.position_offset;
}

void factorise_embedding(const ConfigFields& f, ModelConfig& c) {
  c.embedding_width = f.size("embedding_size", 128);
  if (c.embedding_width == c.d_model) c.embedding_width = 0;
}

void set_relative_keys(const ConfigFields& f, ModelConfig& c) {
  const std::string kind = f.text("position_embedding_type", "absolute");
  if (kind == "absolute") return;
  require(kind == "relative_key" || kind == "relative_key_query",
          "[{}] position_embedding_type is '{}'; need absolute, relative_key or relative_key_query",
          ConfigFields::kWho, kind);
  c.attention =
      fmt::format("relative-key:positions={},p2c={}", c.max_length, kind == "relative_key_query");
  c.positions = PositionKind::kNone;
  c.stored_numbers = (c.max_length + c.position_offset) * c.d_model;
}

void place_bert_embedding(Placer& p) {
  const std::string from = p.base("embeddings");
  p.whole(from + ".word_embeddings.weight", "embedding.tokens");
  if (p.config().positions == PositionKind::kLearned) {
    p.whole(from + ".position_embeddings.weight", "embedding.positions");
  }
  if (p.config().token_types > 0 && p.config().embedding_types) {
    p.whole(from + ".token_type_embeddings.weight", "embedding.types");
  }
  p.norm(from + ".LayerNorm", "embedding.norm");
}

void place_bert_layer(Placer& p, const std::string& from, const std::string& to) {
  p.attention_out(from + ".attention.output.dense", to + ".attention");
  p.norm(from + ".attention.output.LayerNorm", to + ".attention_norm");
  p.linear(from + ".intermediate.dense", to + ".feed_forward.in");
  p.linear(from + ".output.dense", to + ".feed_forward.out");
  p.norm(from + ".output.LayerNorm", to + ".feed_forward_norm");
}

void place_bert_layers(Placer& p, const std::string& suffix) {
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = p.source_layer("encoder.layer", i);
    const auto part = [&](std::string_view name) {
      return fmt::format("{}.attention.self.{}{}", from, name, suffix);
    };
    p.qkv(part("query"), part("key"), part("value"), p.layer(i) + ".attention");
    if (p.uses("relative-key")) {
      p.whole(part("distance_embedding") + ".weight", p.layer(i) + ".attention.relative.distances");
    }
    place_bert_layer(p, from, p.layer(i));
  }
}

void place_bert(Placer& p) {
  place_bert_embedding(p);
  place_bert_layers(p);
}

}  // namespace longspan
