// Relative keys (Shaw et al., 2018, arXiv:1803.02155), and keys and queries (Huang et al., 2020,
// arXiv:2009.13658): a learned vector for every distance, one table for all heads of a layer.
//
//   A_ij = q_i·k_j + q_i·D_b [+ k_j·D_b],   b = clamp(i − j, 1 − P, P − 1) + P − 1
//   y_i  = Σ_j softmax_j(A_ij/√d)·v_j                          D [2P − 1, d], P = `positions`
//
// BERT's `relative_key` is the first, `relative_key_query` (p2c) the second. Up to P tokens every
// distance has a row of its own; of longer sequences all from P − 1 on share the outermost.
//
// All queries are computed, those of padding too: some losses read what they give.
//
// Scores are made tile by tile: D·qᵀ is one product per 64 queries, of K·Dᵀ a tile has the band that
// its distances ask for. Only the rows of D that n keys can ask for are read.
//
// Counts: block_sparse.h with all visible pairs, the relative terms, and with p2c the bands; with T
// rows of D in use:
//   forward   T·d of matmul (scaling D) with p2c
//   backward  the same; (batch·h − 1)·T·d of add (dD)
//   update    T·d of add
#pragma once

#include "longspan/attention/attention.h"
#include "longspan/base/number.h"

namespace longspan {

struct RelativeKeyConfig {
  std::size_t positions = 512;
  bool p2c = false;

  bool operator==(const RelativeKeyConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("positions", positions, "distances up to it are told apart", from_to(1, 1 << 24));
    see("p2c", p2c, "position to content: the table meets the keys too");
  }
};

class RelativeKeyAttention final : public Attention {
 public:
  static constexpr std::string_view kName = "relative-key";
  static constexpr std::string_view kEquations =
      "A_ij = q_i·k_j + q_i·D_b [+ k_j·D_b],   b = clamp(i − j)\n"
      "y_i = Σ_j softmax_j(A_ij/√d)·v_j";
  RelativeKeyAttention(const RelativeKeyConfig& config, const AttentionSite& site);
  static Abilities can(const RelativeKeyConfig& config);
  std::string_view name() const override { return kName; }
  AttentionCost cost(const AttentionShape& shape) const override;

 private:
  struct Rows;
  struct Operands;
  void run_forward(const ForwardCall& call) const override;
  void run_backward(const BackwardCall& call) const override;
  void run_accumulate(const AttentionInputs& in, std::span<const float> saved,
                      std::span<const float> signals) const override;

  Rows rows(const AttentionShape& shape) const;
  Operands prepare(const AttentionInputs& in, Arena& arena) const;
  Work prepare_work(const AttentionShape& shape) const;
  std::size_t prepare_bytes(const AttentionShape& shape) const;

  RelativeKeyConfig config_;
  Parameter* table_;  // D
};

}  // namespace longspan
