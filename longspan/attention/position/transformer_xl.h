// Transformer-XL (Dai et al., 2019, arXiv:1901.02860): relative positions and a history of earlier
// segments.
//
//   A_ij = (q_i + u)·k_j + (q_i + v)·Kr_{i−j},   Kr = R·W_kRᵀ,   y_i = Σ_j softmax_j(A_ij/√d)·v_j
//   R_r  = [sin(r·θ_0), sin(r·θ_1), …, cos(r·θ_0), cos(r·θ_1), …],   θ_c = 10000^(−2c/d_model)
//
// over the h tokens of `history` (projected by the layer's own weights; no gradient reaches them,
// but the weights learn from them) and then the n of this segment. u, v (by head) and W_kR are
// trained. A history that holds the whole past gives what one long segment gives.
//
// Scores are made tile by tile: Kr·(q + v)ᵀ is one product per 64 queries, of which a score takes
// one element; nothing is shifted, nothing n×n is kept.
//
// Decoding keeps, beside keys and values, the rows of Kr: those of the m distances that are new
// with m tokens join them, so that a token projects one distance as it projects one key.
//
// Counts: block_sparse.h with N = h + n keys and the relative term, and, with T distances,
//   forward   T·d_model·w MACCs (Kr; m·d_model·w with notes on the others),
//             B·h·d_model·2w (history), 2·B·n·w of add (q + u, q + v)
//   backward  the same again, T·d_model·w (W_kR), B·n·3w of add (du, dv)
//   update    B·h·d_model·2w, w·d_model + 2w of add
#pragma once

#include "longspan/attention/attention.h"

namespace longspan {

struct TransformerXlConfig {
  bool operator==(const TransformerXlConfig&) const = default;
  template <class See>
  void visit(See /*see*/) {}
};

class TransformerXlAttention final : public Attention {
 public:
  static constexpr std::string_view kName = "transformer-xl";
  static constexpr std::string_view kEquations =
      "A_ij = (q_i + u)·k_j + (q_i + v)·Kr_{i−j},   Kr = R·W_kRᵀ\n"
      "y_i = Σ_j softmax_j(A_ij/√d)·v_j   over the history, then this segment";
  TransformerXlAttention(const TransformerXlConfig& config, const AttentionSite& site);
  static Abilities can(const TransformerXlConfig& config);
  static Streams streams(const TransformerXlConfig& config, const AttentionLayout& layout);
  std::string_view name() const override { return kName; }
  AttentionCost cost(const AttentionShape& shape) const override;
  std::size_t note_floats(const AttentionShape& shape) const override;

  // Where in the signals of backward dKr is, from the smallest distance on: [T, w].
  ConstMatrix table_signal(std::span<const float> signals, const AttentionShape& shape) const;
  // Where in the signals of backward the gradient of the projected history is: [batch·h, 2w], k|v.
  ConstMatrix history_signal(std::span<const float> signals, const AttentionShape& shape) const;

 private:
  struct Operands;
  void check_more(const AttentionShape& shape) const override;
  void run_forward(const ForwardCall& call) const override;
  void run_backward(const BackwardCall& call) const override;
  void run_accumulate(const AttentionInputs& in, std::span<const float> saved,
                      std::span<const float> signals) const override;

  AttentionShape extended(const AttentionShape& shape, std::span<std::int32_t> lengths) const;
  Operands prepare(const AttentionInputs& in, Arena& arena) const;
  Work prepare_work(const AttentionShape& shape) const;
  std::size_t prepare_bytes(const AttentionShape& shape) const;
  std::size_t width() const { return distances_.columns(); }
  std::size_t inputs() const { return distances_.inputs(); }

  Projection distances_;  // W_kR
  Projection history_;    // k|v
  Parameter* u_;
  Parameter* v_;
};

}  // namespace longspan
