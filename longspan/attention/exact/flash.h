// Exact attention by tiles (Dao et al., 2022, arXiv:2205.14135; Dao, 2023, arXiv:2307.08691).
//
//   y_i = Σ_j softmax_j(q_i·k_j/√d + bias_ij)·v_j      over the keys j that query i may see
//
// The matrix is never stored: a tile of 64 queries × 64 keys lives in the cache, the softmax is
// taken online, and backward recomputes the tiles from L_i, the logarithm (base 2) of the row's
// sum.
//
// Counts, with the visible pairs p, h heads, and per head τ = Σ_i ⌈end_i/64⌉ (query × key tile) and
// ρ = Σ_i ⌈end_i/512⌉ (query × backward pass), where query i sees the first end_i keys; M = batch·m
// queries, N the keys that are not padding, g key heads:
//
//   forward   MACCs    h·p·(d + e)
//             matmul   h·M·d                      scaling q
//             softmax  h·(4p + (e + 3)·τ + (e + 3)·M)
//                      maximum, difference, power, sum; per tile the correction c (2) and its
//                      products with ℓ and O (1 + e); per query 1/ℓ, y = O/ℓ and L (1 + e + 2)
//             add      2·h·p                      bias, brought to base 2
//             dropout  h·p
//             of at most 6 queries, c = min(⌈16/(batch·h)⌉, ⌊n/512⌋) > 1 parts of the keys: c·M
//             queries for M in matmul and softmax, and 2e + 3 softmax for each that is merged
//   backward  MACCs    h·p·(3d + 2e) + h·M·e      five products; D = dy·y
//             matmul   h·ρ·d + g·N·d              scaling q, scaling dk
//             softmax  4·h·p                      S − L, power, dP − D, product with P
//             add      2·h·ρ·d + (c − 1)·h·M·d    dq += s·(…) per pass; sums of c partial dq
//                      + 2·h·p bias + h·p its gradient
//             dropout  2·h·p
//
// Threads: forward takes (sequence, head, up to 512 queries), or of a few queries (sequence, head,
// part of the keys), whose results are kept until they are merged; backward (sequence, key head, chunk
// of the keys), where a number of chunks c that only the shape decides each have their own dq.
#pragma once

#include "longspan/attention/attention.h"
#include "longspan/kernels/tiled/tiled_attention.h"

namespace longspan {

struct FlashConfig {
  bool operator==(const FlashConfig&) const = default;
  template <class See>
  void visit(See /*see*/) {}
};

class FlashAttention final : public Attention {
 public:
  static constexpr std::string_view kName = "flash";
  static constexpr std::string_view kEquations =
      "y_i = Σ_j softmax_j(q_i·k_j/√d + bias_ij)·v_j   by tiles, the softmax online";
  explicit FlashAttention(const FlashConfig& config = {}) : Attention(can(config)) {}
  static Abilities can(const FlashConfig& /*config*/) { return Abilities::all(); }
  std::string_view name() const override { return kName; }
  AttentionCost cost(const AttentionShape& shape) const override;

  // backward given D_i = Σ_j P_ij·∂L/∂P_ij, for callers whose loss sees the weights P otherwise
  // than through y: dS = P⊙(dy·vᵀ − D).
  void backward_with_delta(const AttentionInputs& in, ConstHeads dy, std::span<const float> saved,
                           std::span<const float> delta, const AttentionGradients& grad,
                           Arena& arena) const;
  AttentionCost cost_with_delta(const AttentionShape& shape) const;

 private:
  void run_forward(const ForwardCall& call) const override;
  void forward_few(const ForwardCall& call) const;
  void run_backward(const BackwardCall& call) const override;
  void spread_backward(const AttentionInputs& in, ConstHeads dy, std::span<const float> saved,
                       std::span<const float> delta, const AttentionGradients& grad,
                       std::span<TileCounts> counts, Arena& arena) const;
};

}  // namespace longspan
