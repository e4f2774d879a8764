// A model and the batch on which it is counted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "longspan/cost/model_formula.h"
#include "longspan/models/model.h"

namespace longspan {

struct Workload {
  ModelConfig model;
  // False: the layer that gives scores is not counted, as in published sizes of encoders.
  bool output_layer = true;
  std::size_t batch = 1;
  std::size_t length = 1;             // N: of the encoder's or only sequence
  std::size_t target_length = 0;      // M: of the decoder's, where there are both
  std::vector<std::int32_t> lengths;  // real tokens of each sequence; empty: all of them
  std::string note;                   // what of somebody else's config is not counted

  bool has_both() const { return model.family == Family::kEncoderDecoder; }
  // Whether the paper has all kinds of its layers; whether two passes of it can be compared.
  bool in_paper() const;
  bool comparable() const;
  // Rows of the encoder or only stack, of the decoder of both, and of the output layer.
  std::size_t rows() const { return batch * length; }
  std::size_t decoder_rows() const { return batch * target_length; }
  std::size_t output_rows() const;
  std::size_t outputs() const { return model.outputs(); }
  std::size_t d_ff() const { return model.feed_forward_width(); }
  std::size_t kv_heads() const { return model.kv_heads == 0 ? model.heads : model.kv_heads; }
  // Of a key or value: kv_heads·d_head.
  std::size_t kv_width() const { return kv_heads() * head_width_of(model); }
  // What a step trains on: the decoder's or only sequences.
  std::size_t tokens() const { return has_both() ? decoder_rows() : rows(); }
  // Valid as long as this object.
  Batch shape() const;
};

ModelFamily family_of(const ModelConfig& config);

// The longest, widest and deepest that is counted; nobody's model is larger.
inline constexpr std::size_t kLargestLength = std::size_t{1} << 32U;
inline constexpr std::size_t kLargestBatch = std::size_t{1} << 20U;
inline constexpr std::size_t kLargestWidth = std::size_t{1} << 24U;
inline constexpr std::size_t kMostLayers = 4096;

// Throws Error, in one sentence, for what cannot be built or would not fit the engine's counters of
// 64 bits.
void check(const Workload& workload);
// Whether a step's work fits those counters, whatever the mechanism.
bool fits_counters(const Workload& workload);

// Whether every layer attends to all keys.
bool is_full(const Workload& w);
// Every symbol of model_formula() but B.
SymbolValues symbol_values(const Workload& workload);
// The paper's or the ideal engine's layers of this model. What the paper does not have (gates,
// grouped heads, …) is left out; beyond_the_paper() says what that is.
ModelFormula formula_of(const Workload& workload, CostView view);
std::vector<std::string> beyond_the_paper(const Workload& workload);

}  // namespace longspan
