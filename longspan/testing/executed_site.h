// Where the stacks and attentions of a model stand, and what is trained there: what the formulas of
// executed work share, worked out from the config alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/attention/attention.h"
#include "longspan/base/batch.h"
#include "longspan/models/config.h"

namespace longspan::testing {

using Count = std::uint64_t;

// Where one attention or one stack stands.
struct Site {
  ModelPart part = ModelPart::kNone;
  bool causal = false;
  bool cross = false;
  std::size_t layer = 0;
  std::size_t m = 0;
  std::size_t n = 0;
  std::span<const std::int32_t> key_lengths;
  // Packed: every sequence has as many rows as its length says, and none is padding.
  bool packed = false;
  std::span<const std::int32_t> query_lengths = {};

  Count rows(std::size_t batch) const { return packed ? sum(query_lengths) : Count{batch} * m; }
  Count keys(std::size_t batch) const { return packed ? sum(key_lengths) : Count{batch} * n; }

  static Count sum(std::span<const std::int32_t> lengths) {
    Count total = 0;
    for (const std::int32_t n : lengths) total += static_cast<Count>(n);
    return total;
  }
};

// Sequences of a site that are computed as one: all of them, or of packed ones neighbours of equal
// length.
struct Rectangle {
  std::size_t batch = 0;
  std::size_t m = 0;
  std::size_t n = 0;
  std::span<const std::int32_t> key_lengths = {};
};
std::vector<Rectangle> rectangles(const Site& site, const Batch& batch);

inline bool encodes(const ModelConfig& c) {
  return c.family == Family::kEncoder || c.family == Family::kEncoderDecoder;
}
inline bool decodes(const ModelConfig& c) {
  return c.family == Family::kDecoder || c.family == Family::kEncoderDecoder;
}
inline bool translates(const ModelConfig& c) { return encodes(c) && decodes(c); }
inline bool adapts(const ModelConfig& c) { return c.lora_rank > 0; }
Site encoder_site(const ModelConfig& c, const Batch& batch);
Site decoder_site(const Batch& batch);
// What a layer of the decoder reads of the encoder's output.
Site cross_site(Site decoder, const Batch& batch);

inline Count hidden_width(const ModelConfig& c) { return c.d_ff == 0 ? 4 * c.d_model : c.d_ff; }
// Of the stack there: an encoder–decoder's decoder may differ.
inline bool in_second_stack(const ModelConfig& c, const Site& site) {
  return translates(c) && site.part == ModelPart::kDecoder;
}
inline Count hidden_width(const ModelConfig& c, const Site& site) {
  return in_second_stack(c, site) && c.decoder_d_ff > 0 ? c.decoder_d_ff : hidden_width(c);
}
inline std::size_t heads_at(const ModelConfig& c, const Site& site) {
  return in_second_stack(c, site) && c.decoder_heads > 0 ? c.decoder_heads : c.heads;
}
inline std::size_t kv_heads_at(const ModelConfig& c, const Site& site) {
  return c.kv_heads > 0 ? c.kv_heads : heads_at(c, site);
}
inline std::size_t head_width_at(const ModelConfig& c, const Site& site) {
  return c.head_width > 0 ? c.head_width : c.d_model / heads_at(c, site);
}
// Of a row of the table of tokens, and of the last hidden states.
inline Count table_width(const ModelConfig& c) {
  return c.embedding_width > 0 ? c.embedding_width : c.d_model;
}
inline Count end_width(const ModelConfig& c) {
  return c.streams == StreamEnd::kConcat ? 2 * c.d_model : c.d_model;
}
inline Count transformed_width(const ModelConfig& c) {
  return c.output_width > 0 ? c.output_width : end_width(c);
}
// Whether norms have anything to learn.
inline bool norms_learn(const ModelConfig& c) {
  return c.norm_weight || (c.norm_bias && c.norm == NormKind::kLayer);
}
// Whether the first branch of a stack goes without a norm, or one that is not its layer's first.
inline bool goes_unnormed(const ModelConfig& c, std::size_t layer, bool first) {
  if (c.wiring == Wiring::kParallelShared) return !first;
  return !c.first_norm && layer == 0 && first;
}
inline Count tokens_of(const Batch& batch) {
  return batch.packed ? Site::sum(batch.lengths) : Count{batch.batch} * batch.length;
}
// Whether the head reads one row of a sequence.
inline bool pools(const ModelConfig& c) {
  return c.head == HeadKind::kClassifier || c.head == HeadKind::kPairs ||
         (c.head == HeadKind::kStates && c.head_transform);
}
// Rows of the output: of a classifier one for each sequence, of pairs one for each two.
inline Count output_rows(const ModelConfig& c, const Batch& batch) {
  if (c.head == HeadKind::kPairs) return batch.batch / 2;
  return pools(c) ? Count{batch.batch} : tokens_of(batch);
}
// Columns of the output.
inline Count output_columns(const ModelConfig& c) {
  if (c.head == HeadKind::kLanguage) return c.vocab;
  if (c.head != HeadKind::kStates) return c.classes;
  return c.head_transform ? transformed_width(c) : end_width(c);
}

// The factor of the logits, taken on what the output layer reads; a cap of them: two factors and a
// tanh.
inline Work score_scaling(const ModelConfig& c, const Batch& batch) {
  if (c.head == HeadKind::kStates) return {};
  const bool pairs = c.head == HeadKind::kPairs;
  const Count narrow = std::max<Count>(1, hidden_width(c) / 2);
  const Count width = pairs ? narrow : c.head_transform ? transformed_width(c) : end_width(c);
  return flops(Kind::kAdd, c.logit_scale != 1.0F ? output_rows(c, batch) * width : 0);
}
inline Work score_capping(const ModelConfig& c, const Batch& batch) {
  const bool caps = c.logit_cap > 0.0F && c.head != HeadKind::kStates;
  const Count elements = caps ? output_rows(c, batch) * output_columns(c) : 0;
  return flops(Kind::kAdd, 2 * elements) + flops(Kind::kActivation, elements);
}

// "a|b", layer 3 → b
std::string turn_of(std::string_view specifications, std::size_t layer);
// The mixer there.
std::string mixer_of(const ModelConfig& c, const Site& site);

// Channels of a head that turn there, of so many; 0 where none do.
Count turning_channels(const ModelConfig& c, const Site& site, Count d_head);

// What a mechanism says of itself.
struct SiteAttention {
  AttentionCost cost;
  Count q_width = 0;
  Count k_width = 0;  // of keys beside the queries; 0 where they are the queries
  Count v_width = 0;
  bool query_bias = true;
  bool key_bias = true;
};
SiteAttention attention_at(const ModelConfig& c, const Batch& batch, const Site& site, bool drops);
// Exact attention of as many heads for keys as for queries, d and e wide.
struct CoreWidths {
  std::size_t d;
  std::size_t e;
  bool drops;
};
Cost core_at(const ModelConfig& c, const Batch& batch, const Site& site, const CoreWidths& widths);

// Whether encoder and decoder look tokens up in one table.
inline bool shares_table(const ModelConfig& c) {
  return c.shared_table && c.stem == StemKind::kTokens;
}
// Frozen layers freeze the embedding of the first stack, hence the table that another shares with
// it, whose own positions, types, norm and projection are trained still.
bool trains_table(const ModelConfig& c, const Site& stack);
bool trains_embedding(const ModelConfig& c, const Site& stack);

}  // namespace longspan::testing
