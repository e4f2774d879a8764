// Attention within blocks that every second layer shifts by half, and global tokens: PEGASUS-X
// (Phang et al., 2022, arXiv:2208.04347).
//
//   y_i = Σ_j softmax_j(q_i·k_j/√d)·v_j
//   over all keys                                     of the first G tokens
//   over those and all of block(i) = ⌊(i − G + s)/B⌋   of the others
//
// with G = `globals`, B = `block` and s = ⌊B/2⌋ in the layers 1, 3, … of a stack, else 0: the blocks
// of one layer join those of the layer before.
//
// Exact for the keys it looks at; equal to full attention when one block covers the sequence.
// Counts: block_sparse.h with p ≈ n·(B + 2·G).
#pragma once

#include "longspan/attention/attention.h"
#include "longspan/attention/pattern/pattern.h"
#include "longspan/attention/shown.h"
#include "longspan/base/number.h"

namespace longspan {

struct StaggeredConfig {
  std::size_t block = 512;
  std::size_t globals = 0;
  bool stagger = true;

  bool operator==(const StaggeredConfig&) const = default;
  void show_at(std::size_t tokens) { block = shown_size(tokens / 8, block); }
  template <class See>
  void visit(See see) {
    see("block", block, "tokens of a block", from_to(1, 1e7));
    see("globals", globals, "first tokens that see and are seen by all", from_to(0, 1e7));
    see("stagger", stagger, "every second layer shifts its blocks by half");
  }
};

class StaggeredAttention final : public Attention, public FixedPattern {
 public:
  static constexpr std::string_view kName = "staggered";
  static constexpr std::string_view kEquations =
      "y_i = Σ_j softmax_j(q_i·k_j/√d)·v_j\n"
      "over the first G keys and those of block ⌊(i − G + s)/B⌋, s = ⌊B/2⌋ in odd layers";
  explicit StaggeredAttention(const StaggeredConfig& config = {}, std::size_t layer = 0);
  StaggeredAttention(const StaggeredConfig& config, const AttentionSite& site)
      : StaggeredAttention(config, site.layer) {}
  static Abilities can(const StaggeredConfig& config);
  std::string_view name() const override { return kName; }
  AttentionCost cost(const AttentionShape& shape) const override;
  std::string_view reason(const AttentionShape& shape, std::size_t head, std::size_t i,
                          std::size_t j) const override;

 private:
  class Pattern;
  void run_forward(const ForwardCall& call) const override;
  void run_backward(const BackwardCall& call) const override;

  StaggeredConfig config_;
  std::size_t shift_;  // s
};

}  // namespace longspan
