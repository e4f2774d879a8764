// Attention within blocks of neighbours (Parmar et al., 2018, arXiv:1802.05751; Reformer's local
// layers).
//
//   y_i = Σ_j softmax_j(q_i·k_j/√d)·v_j   over the keys j of the blocks t − before … t + after,
//                                          t = ⌊i/block⌋
//
// Blocks are contiguous and end where the sequence ends; with `wrap` the first one follows the
// last, as in Reformer, unless causal. Causal, m < n queries are the last of n tokens, so that
// decoding reads a cache of keys and values.
//
// Exact for the keys it looks at; equal to full attention when one block covers the sequence.
// Counts: block_sparse.h with p ≈ n·(before + 1 + after)·block.
#pragma once

#include "longspan/attention/attention.h"
#include "longspan/attention/pattern/pattern.h"
#include "longspan/attention/shown.h"
#include "longspan/base/number.h"

namespace longspan {

struct LocalConfig {
  std::size_t block = 128;
  std::size_t before = 0;  // blocks
  std::size_t after = 0;
  bool wrap = false;

  bool operator==(const LocalConfig&) const = default;
  void show_at(std::size_t tokens) { block = shown_size(tokens / 8, block); }
  template <class See>
  void visit(See see) {
    see("block", block, "tokens of a block", from_to(1, 1e7));
    see("before", before, "blocks before the own one that are seen", from_to(0, 1e7));
    see("after", after, "blocks behind it", from_to(0, 1e7));
    see("wrap", wrap, "the first block follows the last; not causal");
  }
};

class LocalAttention final : public Attention, public FixedPattern {
 public:
  static constexpr std::string_view kName = "local";
  static constexpr std::string_view kEquations =
      "y_i = Σ_j softmax_j(q_i·k_j/√d)·v_j\n"
      "over the keys j of the blocks t − before … t + after, t = ⌊i/block⌋";
  explicit LocalAttention(const LocalConfig& config = {})
      : Attention(can(config)), config_(config) {}
  static Abilities can(const LocalConfig& config);
  std::string_view name() const override { return kName; }
  AttentionCost cost(const AttentionShape& shape) const override;
  std::string_view reason(const AttentionShape& shape, std::size_t head, std::size_t i,
                          std::size_t j) const override;
  const LocalConfig& config() const { return config_; }

 private:
  void run_forward(const ForwardCall& call) const override;
  void run_backward(const BackwardCall& call) const override;

  LocalConfig config_;
};

}  // namespace longspan
