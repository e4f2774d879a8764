// Where the stacks and attentions of a model stand, and what is trained there: what the formulas of
// executed work share, worked out from the config alone.
#pragma once

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
inline Count kv_width(const ModelConfig& c) {
  return (c.kv_heads == 0 ? c.heads : c.kv_heads) * (c.d_model / c.heads);
}
inline Count tokens_of(const Batch& batch) {
  return batch.packed ? Site::sum(batch.lengths) : Count{batch.batch} * batch.length;
}
// Rows of the output: of a classifier one for each sequence, of pairs one for each two.
inline Count output_rows(const ModelConfig& c, const Batch& batch) {
  if (c.head == HeadKind::kPairs) return batch.batch / 2;
  return c.head == HeadKind::kClassifier ? Count{batch.batch} : tokens_of(batch);
}

// "a|b", layer 3 → b
std::string turn_of(std::string_view specifications, std::size_t layer);
// The mixer there.
std::string mixer_of(const ModelConfig& c, const Site& site);

// What a mechanism says of itself.
struct SiteAttention {
  AttentionCost cost;
  Count k_width = 0;  // of keys beside the queries; 0 where they are the queries
  bool query_bias = true;
  bool key_bias = true;
};
SiteAttention attention_at(const ModelConfig& c, const Batch& batch, const Site& site, bool drops);

// Frozen layers freeze the embedding of the first stack, hence the table that another shares with
// it, whose own positions, types, norm and projection are trained still.
// Whether encoder and decoder look tokens up in one table.
inline bool shares_table(const ModelConfig& c) {
  return c.shared_table && c.stem == StemKind::kTokens;
}
bool trains_table(const ModelConfig& c, const Site& stack);
bool trains_embedding(const ModelConfig& c, const Site& stack);

}  // namespace longspan::testing
