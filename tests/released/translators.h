// Sizes of released models, written from the structure of the reference classes; nothing here knows
// the library. Encoder–decoders.
#pragma once

#include "tests/released/config.h"

namespace released {

// Encoder–decoder.

// T5, mT5, umT5, LongT5: no biases; norms without centre; one table of relative biases per stack
// (umT5: per layer). LongT5 with transient-global attention: a norm per layer and a second table.
inline u64 t5_parameters(const json& c) {
  const std::string type = model_type(c);
  const u64 d = num(c, "d_model"), f = num(c, "d_ff"), v = vocab(c), heads = num(c, "num_heads");
  const u64 n = num(c, "num_layers"), m = num(c, "num_decoder_layers", n);
  const u64 w = heads * num(c, "d_kv"), attention = 4 * d * w;
  const char* usual = type == "mt5" || type == "umt5" ? "gated-gelu" : "relu";
  const bool gated = text(c, "feed_forward_proj", usual).starts_with("gated-");
  const u64 dense = (gated ? 3 : 2) * d * f;
  const u64 table = num(c, "relative_attention_num_buckets", 32) * heads;
  const bool per_layer = type == "umt5";
  u64 encoder = n * (attention + dense + 2 * d) + d + table * (per_layer ? n : 1);
  if (text(c, "encoder_attention_type", "local") == "transient-global") encoder += n * d + table;
  const u64 decoder = m * (2 * attention + dense + 3 * d) + d + table * (per_layer ? m : 1);
  const std::string head = head_of(c);
  if (head == "EncoderModel") return v * d + encoder;
  if (head == "ForTokenClassification") return v * d + encoder + linear(d, labels(c));
  const u64 both = v * d + encoder + decoder;
  if (head == "Model") return both;
  if (head == "ForConditionalGeneration" || head == "WithLMHead" || head == "WithLMHeadModel" ||
      head == "LMHeadModel")
    return both + (tied(c, type != "mt5") ? 0 : v * d);
  if (head == "ForSequenceClassification") return both + linear(d, d) + linear(d, labels(c));
  if (head == "ForQuestionAnswering") return both + linear(d, labels(c));
  unknown_head(c);
}

inline u64 switch_sparse(u64 layers, u64 sparse) {  // layers step·k + 1, or all where step is 1
  const u64 step = sparse > 0 ? layers / sparse : layers;
  u64 count = 0;
  for (u64 i = 0; i < layers; ++i) count += step == 1 || i % step == 1;
  return count;
}
inline u64 switch_sparse_layers(const json& c) {
  const u64 n = num(c, "num_layers"), m = num(c, "num_decoder_layers", n);
  return switch_sparse(n, num(c, "num_sparse_encoder_layers", 3)) +
         switch_sparse(m, num(c, "num_sparse_decoder_layers", 3));
}
// Switch: T5 in which some feed-forwards are experts behind a router.
inline u64 switch_parameters(const json& c) {
  const u64 d = num(c, "d_model"), f = num(c, "d_ff"), e = num(c, "num_experts", 8);
  const u64 n = num(c, "num_layers"), m = num(c, "num_decoder_layers", n);
  const u64 w = num(c, "num_heads") * num(c, "d_kv"), attention = 4 * d * w, dense = 2 * d * f;
  const u64 table = num(c, "relative_attention_num_buckets", 32) * num(c, "num_heads");
  const u64 sparse = switch_sparse_layers(c);
  const u64 all = vocab(c) * d + n * (attention + 2 * d) + m * (2 * attention + 3 * d) + 2 * d +
                  2 * table + (n + m - sparse) * dense +
                  sparse * (e * dense + linear(d, e, flag(c, "router_bias", false)));
  const std::string head = head_of(c);
  if (head == "Model") return all;
  if (head == "ForConditionalGeneration") return all + (tied(c, true) ? 0 : vocab(c) * d);
  unknown_head(c);
}

// What differs between the descendants of BART.
struct BartShape {
  u64 encoder_positions = 0, decoder_positions = 0;  // rows of each table
  bool embedding_norm = false, final_norm = false;
  bool attention_bias = true;
};
inline BartShape bart_shape(const json& c) {
  const std::string type = model_type(c);
  const u64 rows = num(c, "max_position_embeddings", 1024);
  if (type == "bart") return {rows + 2, rows + 2, true, false};
  if (type == "mbart") return {rows + 2, rows + 2, true, true};
  if (type == "marian") return {rows, rows, false, false};  // sinusoid, nn.Embedding
  if (type == "pegasus") return {rows, rows, false, true};  // sinusoid, nn.Embedding
  if (type == "m2m_100") return {0, 0, false, true};        // sinusoid, buffer
  if (type == "blenderbot") return {rows, rows, false, true};
  if (type == "blenderbot-small") return {rows, rows, true, false};
  if (type == "bigbird_pegasus") return {rows, rows, false, true, flag(c, "use_bias", false)};
  if (type == "pegasus_x") return {0, 0, false, true, false};  // sinusoid, computed
  if (type == "led")
    return {num(c, "max_encoder_position_embeddings", 16384),
            num(c, "max_decoder_position_embeddings", 1024), true, false};
  throw std::invalid_argument("[released] no such descendant of BART: " + type);
}

inline u64 bart_parameters(const json& c) {
  const std::string type = model_type(c), head = head_of(c);
  const BartShape s = bart_shape(c);
  const u64 d = num(c, "d_model"), v = vocab(c), norm = layer_norm(d);
  const u64 f = num(c, "encoder_ffn_dim"), g = num(c, "decoder_ffn_dim");
  const u64 attention = 4 * linear(d, d, s.attention_bias);
  const u64 ends = (s.embedding_norm ? norm : 0) + (s.final_norm ? norm : 0);
  u64 encoder_layer_ = attention + linear(d, f) + linear(f, d) + 2 * norm;
  if (type == "led") encoder_layer_ += 3 * linear(d, d);  // query, key and value of global tokens
  if (type == "pegasus_x") encoder_layer_ += norm;        // the norm of the global tokens
  u64 encoder = s.encoder_positions * d + ends + num(c, "encoder_layers") * encoder_layer_;
  if (type == "pegasus_x") encoder += num(c, "num_global_tokens", 32) * d;
  const u64 decoder_layer = 2 * attention + linear(d, g) + linear(g, d) + 3 * norm;
  const u64 decoder = s.decoder_positions * d + ends + num(c, "decoder_layers") * decoder_layer;
  u64 tables = v * d;
  const bool shared = flag(c, "share_encoder_decoder_embeddings", true);
  const u64 target = num(c, "decoder_vocab_size", v);
  if (type == "marian" && !shared) tables += target * d;
  const u64 all = tables + encoder + decoder;
  if (head == "Model") return all;
  if (head == "ForConditionalGeneration") return all + (tied(c, true) ? 0 : target * d);
  if (head == "ForSequenceClassification") return all + linear(d, d) + linear(d, labels(c));
  if (head == "ForQuestionAnswering") return all + linear(d, labels(c));
  if (head == "ForCausalLM")  // the decoder alone; its layers keep their cross attention
    return v * d + decoder + (tied(c, true) ? 0 : v * d);
  unknown_head(c);
}

// Whisper: two convolutions before the encoder; the key projection has no bias; the encoder's
// sinusoid table is an nn.Embedding without gradient.
inline u64 whisper_parameters(const json& c) {
  const u64 d = num(c, "d_model"), v = vocab(c), norm = layer_norm(d);
  const u64 f = num(c, "encoder_ffn_dim"), g = num(c, "decoder_ffn_dim");
  const u64 attention = 3 * linear(d, d) + linear(d, d, false);
  const u64 encoder =
      3 * num(c, "num_mel_bins", 80) * d + d + 3 * d * d + d +
      num(c, "max_source_positions", 1500) * d +
      num(c, "encoder_layers") * (attention + linear(d, f) + linear(f, d) + 2 * norm) + norm;
  const u64 decoder =
      v * d + num(c, "max_target_positions", 448) * d +
      num(c, "decoder_layers") * (2 * attention + linear(d, g) + linear(g, d) + 3 * norm) + norm;
  const std::string head = head_of(c);
  if (head == "Model") return encoder + decoder;
  if (head == "ForConditionalGeneration") return encoder + decoder + (tied(c, true) ? 0 : v * d);
  unknown_head(c);
}

}  // namespace released
