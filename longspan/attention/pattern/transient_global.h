// LongT5's attention (Guo et al., 2022, arXiv:2112.07916): a window, and a summary of every block.
//
//   l_ij = s·q_i·k_j + d_{i−j,h}                 of the tokens |i − j| ≤ `radius`
//   l'_ig = s·q_i·k̂_g + d'_{β(i)−g,h}            of all blocks g
//   y_i  = (Σ_j e^l_ij·v_j + Σ_g e^l'_ig·v̂_g)/(Σ_j e^l_ij + Σ_g e^l'_ig)
//   x̂_g  = γ⊙z_g/√(mean(z_g²) + ε),  z_g = Σ_{i: β(i)=g} x_i,  k̂ = W_K·x̂,  v̂ = W_V·x̂
//
// x are the layer's inputs, W_K and W_V its own. β(i) = min(⌊i/S⌋, ⌊n_b/S⌋ − 1) with S = `block`,
// n_b the tokens that are not padding: those of an incomplete last block join the one before; of
// fewer than S tokens there is no summary. d and d' are biases of buckets of distances
// (exact/distance_bias.h), each one table for the layers of a stack.
//
// The window is flash, which leaves L_i; the summaries are tiles of 64 queries behind it, and both
// are merged by their log-sum-exp. Backward gives both parts the same L and D_i = dy_i·y_i.
//
// Counts: flash over the window; with h heads, g key heads, G = ⌊n/S⌋, and of the sequences that
// have summaries M tokens, p = Σ n_b·G_b pairs, τ = Σ n_b·⌈G_b/64⌉ and ρ = Σ n_b·⌈G_b/512⌉:
//   forward   add      M·d_model (z) + h·(2G − 1) (d') + 2·h·p
//             norm     RMS of B·G rows; MACCs of k̂ and v̂: B·G rows
//             MACCs    h·p·(d + e)
//             matmul   h·M·d
//             softmax  h·(4p + (e + 3)·(τ + M)) + h·M·(3e + 10), the merge
//             dropout  h·p
//   backward  MACCs    h·p·(3d + 2e), the rows of k̂ and v̂; norm
//             matmul   (h·ρ + g·Σ G_b)·d
//             softmax  4·h·p
//             add      2·h·ρ·d + 4·h·p + (B + 1)·h·(2G − 1)
//             dropout  2·h·p
//   update    k̂ and v̂, γ, one of add for each of d'
#pragma once

#include "longspan/attention/attention.h"
#include "longspan/attention/exact/flash.h"
#include "longspan/attention/pattern/pattern.h"
#include "longspan/attention/shown.h"
#include "longspan/base/number.h"

namespace longspan {

struct TransientGlobalConfig {
  std::size_t radius = 127;
  std::size_t block = 16;
  double scale = 0.0;
  std::size_t buckets = 32;
  std::size_t span = 128;
  float epsilon = 1e-6F;

  bool operator==(const TransientGlobalConfig&) const = default;
  void show_at(std::size_t tokens) {
    radius = shown_size(tokens / 16, radius);
    block = shown_size(tokens / 8, block);
  }
  template <class See>
  void visit(See see) {
    see("radius", radius, "neighbours on either side", from_to(0, 1e7));
    see("block", block, "tokens of a summary", from_to(1, 1e7));
    see("scale", scale, "of the scores; 0: 1/√d", from_to(0, 1e6));
    see("buckets", buckets, "of distances, and of those of blocks", from_to(4, 65536));
    see("span", span, "the distance from which on all share the last", from_to(4, 1e6));
    see("epsilon", epsilon, "of the norm of the sums", above_to(0, 1));
  }
};

class TransientGlobalAttention final : public Attention, public FixedPattern {
 public:
  static constexpr std::string_view kName = "transient-global";
  static constexpr std::string_view kEquations =
      "y_i = Σ_j softmax_j(s·q_i·k_j + d_{i−j})·v_j\n"
      "over |i − j| ≤ radius and one key for every block: k̂ = W_K·norm(Σ x of the block)";
  TransientGlobalAttention(const TransientGlobalConfig& config, const AttentionSite& site);
  static Abilities can(const TransientGlobalConfig& config);
  static Streams streams(const TransientGlobalConfig& config, const AttentionLayout& layout);
  std::string_view name() const override { return kName; }
  AttentionCost cost(const AttentionShape& shape) const override;
  std::string_view reason(const AttentionShape& shape, std::size_t head, std::size_t i,
                          std::size_t j) const override;

 private:
  struct Summaries;
  struct Counts;
  class Side;
  void check_more(const AttentionShape& shape) const override;
  void run_forward(const ForwardCall& call) const override;
  void run_backward(const BackwardCall& call) const override;
  void run_accumulate(const AttentionInputs& in, std::span<const float> saved,
                      std::span<const float> signals) const override;

  std::size_t tokens(const AttentionShape& shape, std::size_t b) const;
  std::size_t summaries(const AttentionShape& shape) const { return shape.batch * blocks(shape.n); }
  // Calls f(first token, tokens, row of the summaries) for every block of every sequence.
  template <class F>
  void for_each_block(const AttentionShape& shape, const F& f) const;
  void summarize(const AttentionInputs& in, const Summaries& to, Arena& arena) const;
  // The gradient of the sums to the tokens.
  void spread(const AttentionShape& shape, ConstMatrix dsums, Matrix dx) const;
  Work sum_work(const AttentionShape& shape) const;
  // Of the summaries' scores.
  Work forward_work(const AttentionShape& shape, const TileCounts& counts) const;
  Work backward_work(const AttentionShape& shape, const TileCounts& counts) const;
  std::size_t blocks(std::size_t tokens) const { return tokens / config_.block; }
  Buckets buckets() const { return {config_.buckets, config_.span, true}; }
  float scale(std::size_t d) const;

  TransientGlobalConfig config_;
  FlashAttention flash_;
  Projection key_value_;  // W_K|W_V
  Parameter* gamma_;      // γ
  Parameter* table_;      // of d' [buckets, heads]
};

}  // namespace longspan
