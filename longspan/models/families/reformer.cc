// Reformer (Kitaev et al., 2020, arXiv:2001.04451).
#include <fmt/format.h>

#include "longspan/base/sizes.h"
#include "longspan/models/families/heads.h"

namespace longspan {

namespace reformer_family {

namespace {

std::string buckets(const ConfigFields& f) {
  return fmt::format("{}", fmt::join(f.sizes("num_buckets"), "x"));
}

std::string layers(const ConfigFields& f) {
  std::string turns;
  for (const nlohmann::json& kind : f.at("attn_layers")) {
    if (!turns.empty()) turns += "|";
    if (kind == "lsh") {
      turns += fmt::format(
          "reformer:chunk={},rounds={},buckets={},before={},after={},scaling=trax,"
          "same_bucket=false,deduplicate=false,wrap=all,strict=false,padding=bucket",
          f.size("lsh_attn_chunk_length", 64), f.size("num_hashes", 1), buckets(f),
          f.size("lsh_num_chunks_before", 1), f.size("lsh_num_chunks_after", 0));
    } else {
      require(kind == "local", "[{}] attn_layers has {}; need lsh or local", ConfigFields::kWho,
              kind.dump());
      turns += fmt::format(
          "local:block={},before={},after={},wrap=true", f.size("local_attn_chunk_length", 64),
          f.size("local_num_chunks_before", 1), f.size("local_num_chunks_after", 0));
    }
  }
  return turns;
}

ModelConfig config(const ConfigFields& f) {
  ModelConfig c;
  c.family = f.flag("is_decoder", false) ? "decoder" : "encoder";
  c.wiring = Wiring::kReversible;
  c.streams = StreamEnd::kConcat;
  c.layers = f.layers("num_hidden_layers");
  c.d_model = f.size("hidden_size");
  c.heads = f.size("num_attention_heads");
  c.d_ff = f.size("feed_forward_size");
  c.vocab = f.size("vocab_size");
  c.max_length = f.size("max_position_embeddings");
  c.activation = f.activation("hidden_act", "relu");
  c.norm_epsilon = f.number("layer_norm_eps", 1e-12);
  c.dropout = f.number("hidden_dropout_prob", 0.05);
  c.init_deviation = f.number("initializer_range", 0.02);
  c.padding_token = f.token("pad_token_id");
  c.attention_bias = false;
  c.tied = false;
  c.head_bias = true;
  c.attention = layers(f);
  if (f.flag("axial_pos_embds", true)) {
    const std::vector<std::size_t> shape = f.sizes("axial_pos_shape");
    const std::vector<std::size_t> widths = f.sizes("axial_pos_embds_dim");
    require(shape.size() == 2 && widths.size() == 2,
            "[{}] axial positions have {} axes and {} widths; need two of each", ConfigFields::kWho,
            shape.size(), widths.size());
    c.positions = PositionKind::kAxial;
    c.axial_rows = shape[0];
    c.max_length = size_product(shape[0], shape[1]);
    c.axial_width = widths[0];
  }
  f.pass_over({"sinusoidal_pos_embds", "num_hashes", "intermediate_size", "hash_seed",
               "lsh_attention_probs_dropout_prob", "axial_norm_std",
               "local_attention_probs_dropout_prob", "chunk_size_lm_head", "num_chunks_after",
               "num_chunks_before", "attn_type"});
  f.refuse(f.flag("tie_word_embeddings", false), "an output layer tied to half its width");
  require(c.heads > 0, "[{}] num_attention_heads is 0; need 1 or more", ConfigFields::kWho);
  const std::size_t width = f.size("attention_head_size", c.d_model / c.heads);
  if (width * c.heads != c.d_model) c.head_width = width;
  return c;
}

void place(Placer& p) {
  p.whole("reformer.embeddings.word_embeddings.weight", "embedding.tokens");
  if (p.config().positions == PositionKind::kAxial) {
    p.whole("reformer.embeddings.position_embeddings.weights.0", "embedding.axial_rows");
    p.whole("reformer.embeddings.position_embeddings.weights.1", "embedding.axial_columns");
  } else {
    p.whole("reformer.embeddings.position_embeddings.embedding.weight", "embedding.positions");
  }
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = "reformer.encoder.layers." + std::to_string(i);
    const std::string self = from + ".attention.self_attention";
    const std::string to = p.layer(i);
    p.norm(from + ".attention.layer_norm", to + ".attention_norm");
    if (turn_of(p.config().attention, i).starts_with("reformer")) {
      p.shared_qk(self + ".query_key", self + ".value", to + ".attention");
    } else {
      p.qkv(self + ".query", self + ".key", self + ".value", to + ".attention");
    }
    p.attention_out(from + ".attention.output.dense", to + ".attention");
    p.norm(from + ".feed_forward.layer_norm", to + ".feed_forward_norm");
    p.linear(from + ".feed_forward.dense.dense", to + ".feed_forward.in");
    p.linear(from + ".feed_forward.output.dense", to + ".feed_forward.out");
  }
  p.norm("reformer.encoder.layer_norm", fmt::format("{}.norm", p.config().family));
}

void place_head(Placer& p) {
  p.whole("lm_head.decoder.weight", "head.output.weight");
  p.whole("lm_head.bias", "head.output.bias");
  p.second_name("lm_head.decoder.bias", "head.output.bias");
}

constexpr CheckpointHead kHeads[] = {
    {"ReformerModelWithLMHead", &heads::causal, &place_head},
    {"ReformerForMaskedLM", &heads::causal, &place_head},
    {"ReformerModel", &heads::bare, &heads::nothing},
};

}  // namespace

}  // namespace reformer_family

extern const CheckpointFamily kReformer{"reformer", "reformer", &reformer_family::config,
                                        &reformer_family::place, reformer_family::kHeads};

}  // namespace longspan
