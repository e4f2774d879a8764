// Funnel-Transformer's attention (Dai et al., 2020, arXiv:2006.03236): relative positions of a
// sequence whose queries may be pooled in pairs while its keys are not, and token types.
//
//   A_ij = (q_i + u)·k_j + c_ij·[(q_i + v)·W_R·R_t + (q_i + s)·G_same(i,j)]
//   y_i  = Σ_j softmax_j(A_ij/√d)·v_j
//   t    = step·(i − j),   with pooled queries (m ≠ n)   t = step·(2i − j − 1), without cls 2i − j
//
// R as in transformer_xl.h, of distances t in tokens of the model's input; `step` of them lie
// between two keys. G_1 is for tokens of one type and G_0 for others; type 2, that of the cls token,
// agrees with all. A pooled query has the type of the first token of its pair. With `cls` the first
// row stands apart: c_ij = 0 where i = 0 or j = 0, else 1. u, v, s, G (by head) and W_R are trained.
//
// XLNet's (Yang et al., 2019, arXiv:1906.08237) is the same with cls=false and joker=false: none
// stands apart, types are 0 to 3 and agree with themselves alone. Without token types its paper has
// no term of them; here all agree, which adds the same to every score of a query.
//
// Types are columns of queries and keys, [q_i + u | a_i0 a_i1 a_i2] and [k_j | one-hot type_j] with
// a_ir = (q_i + s)·G_same(i,r), and positions are terms of the distance, so that scores are made
// tile by tile and nothing n×n is kept. The key of the cls token has no such terms, its query zeros.
// All queries are computed, those of padding too: pooled, they reach real tokens again.
//
// Counts: block_sparse.h with d + 3 columns (d + 4 without the joker), all queries and the relative term of d′ = d; with T
// distances, Q = B·m queries, P of them positioned (all; with `cls` not the first):
//   forward   T·d_model·w + 2·P·w MACCs, Q·w + 2·P·w of add
//   backward  the same again; T·d_model·w (W_R) + 4·P·w MACCs (through G, and dG), of add
//             2·Q·w (du), 4·P·w (dq, dv, ds, q + s) and (Q − P)·w (dq without positions)
//   update    w·d_model + 5·w of add
#pragma once

#include "longspan/attention/attention.h"

namespace longspan {

struct FunnelConfig {
  bool cls = true;    // the first token stands apart
  bool joker = true;  // type 2 agrees with all

  bool operator==(const FunnelConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("cls", cls, "the first token stands apart");
    see("joker", joker, "tokens of type 2 agree with all; false: types are 0 to 3");
  }
};

class FunnelAttention final : public Attention {
 public:
  static constexpr std::string_view kName = "funnel";
  static constexpr std::string_view kEquations =
      "A_ij = (q_i + u)·k_j + c_ij·[(q_i + v)·W_R·R_t + (q_i + s)·G_same(i,j)]\n"
      "y_i = Σ_j softmax_j(A_ij/√d)·v_j";
  FunnelAttention(const FunnelConfig& config, const AttentionSite& site);
  static Abilities can(const FunnelConfig& config);
  static Streams streams(const FunnelConfig& config, const AttentionLayout& layout);
  std::string_view name() const override { return kName; }
  AttentionCost cost(const AttentionShape& shape) const override;

 private:
  struct Operands;
  struct Signals;
  void run_forward(const ForwardCall& call) const override;
  void run_backward(const BackwardCall& call) const override;
  void run_accumulate(const AttentionInputs& in, std::span<const float> saved,
                      std::span<const float> signals) const override;

  Operands prepare(const AttentionInputs& in, Arena& arena) const;
  Work prepare_work(const AttentionShape& shape) const;
  std::size_t prepare_bytes(const AttentionShape& shape) const;
  // Sends the gradients of a head's columns to q, k and the signals.
  void spread_head(const AttentionInputs& in, std::size_t h, const Heads& dq, const Heads& dqr,
                   const AttentionGradients& grad, const Signals& signals) const;
  Work spread_work(const AttentionShape& shape) const;
  std::size_t positioned(const AttentionShape& shape) const {
    return shape.batch * (shape.m - (config_.cls ? 1 : 0));
  }
  bool apart(std::size_t i) const { return config_.cls && i == 0; }
  // How many a token can have.
  std::size_t types() const { return config_.joker ? 3 : 4; }
  AttentionShape widened(const AttentionShape& shape) const;
  std::size_t width() const { return distances_.columns(); }
  std::size_t inputs() const { return distances_.inputs(); }

  FunnelConfig config_;
  std::size_t step_;
  Projection distances_;  // W_R
  Parameter* u_;
  Parameter* v_;
  Parameter* s_;
  Parameter* types_;  // G, [2, w]
};

}  // namespace longspan
