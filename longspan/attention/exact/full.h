// Exact attention with its matrix in memory (Vaswani et al., 2017, arXiv:1706.03762).
//
//   S = (Q/√d)·Kᵀ + bias,  −∞ where hidden      [m, n]
//   P = softmax(S),  y = (P⊙F)·V                F the dropout factors
//
// Backward, with the P that forward saved:
//   dV = (P⊙F)ᵀ·dy,  dP = F⊙(dy·Vᵀ),  dS = P⊙(dP − Σ_j P⊙dP)
//   dQ = dS·K/√d,    dK = dSᵀ·(Q/√d),  dbias = dS
//
// Every pair is computed, hidden or not. Counts, with M = batch·m queries and p = batch·m·n pairs:
//
//   forward   MACCs    h·p·(d + e)
//             matmul   h·M·d            scaling q
//             softmax  5·h·p
//             add      h·p              bias
//             dropout  h·p
//   backward  MACCs    h·p·(2d + 2e)
//             matmul   h·M·d            scaling q; the scale of dq is the product's own α
//             softmax  4·h·p
//             add      h·p              gradient of the bias
//             dropout  2·h·p
//
// Memory: forward h·p floats for the matrix, and as many again that are kept for backward.
// Threads: forward takes (sequence, head, 128 queries), backward (sequence, key head).
#pragma once

#include "longspan/attention/attention.h"

namespace longspan {

struct FullConfig {
  bool key_bias = true;

  bool operator==(const FullConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("key_bias", key_bias, "keys have a bias where queries and values have one");
  }
};

class FullAttention final : public Attention {
 public:
  static constexpr std::string_view kName = "full";
  static constexpr std::string_view kEquations =
      "S = (q/√d)·kᵀ + bias\n"
      "y = softmax(S)·v";
  explicit FullAttention(const FullConfig& config = {}) : Attention(can(config)) {}
  static Abilities can(const FullConfig& /*config*/) { return Abilities::all(); }
  static Streams streams(const FullConfig& config, const AttentionLayout& layout) {
    return Streams::qkv(layout, config.key_bias);
  }
  std::string_view name() const override { return kName; }
  AttentionCost cost(const AttentionShape& shape) const override;

 private:
  void check_memory(const AttentionShape& shape) const override;
  void run_forward(const ForwardCall& call) const override;
  void run_backward(const BackwardCall& call) const override;
};

}  // namespace longspan
