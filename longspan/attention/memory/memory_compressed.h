// Memory-compressed attention (Liu et al., 2018, arXiv:1801.10198): keys and values shortened by a
// convolution whose kernel is as wide as its stride s.
//
//   K̄_t = Σ_{r<s} W_r·k_{ts+r},  V̄ likewise           t < ⌈n/s⌉, W_r [d, d] per head, learned
//   y = softmax(q·K̄ᵀ/√d)·V̄
//
// Causal sequences are shifted so that nothing leaks: slot t ends with token ts,
//
//   K̄_t = Σ_{r<s} W_r·k_{ts+r−(s−1)}                   (zeros before the first token)
//
// and token i sees the slots t ≤ ⌊i/s⌋. Queries at positions that agree modulo s then form a plain
// causal problem, so flash runs once for each of the s remainders, on strided views. Keys that are
// padding count as zeros, and slots of padding alone are hidden.
//
// Counts, with N the keys that are in a slot (g key heads, M = batch·heads·m queries):
//
//   forward   MACCs  g·N·(d² + e²); then flash over the slots, each remainder by itself
//   backward  MACCs  flash; g·N·(d² + e²) for dk and dv; add: sums of dK̄ over the remainders
//   update    MACCs  g·N·(d² + e²)
#pragma once

#include "longspan/attention/attention.h"
#include "longspan/attention/exact/flash.h"
#include "longspan/base/integers.h"
#include "longspan/base/number.h"

namespace longspan {

struct MemoryCompressedConfig {
  std::size_t stride = 3;
  bool operator==(const MemoryCompressedConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("stride", stride, "tokens that become one key, s", from_to(1, 1024));
  }
};

class MemoryCompressedAttention final : public Attention {
 public:
  static constexpr std::string_view kName = "memory-compressed";
  static constexpr std::string_view kEquations =
      "K̄_t = Σ_{r<s} W_r·k_{ts+r},  V̄ likewise   W_r [d, d] learned\n"
      "y = softmax(q·K̄ᵀ/√d)·V̄";
  MemoryCompressedAttention(const MemoryCompressedConfig& config, const AttentionSite& site);
  static Abilities can(const MemoryCompressedConfig& config);
  std::string_view name() const override { return kName; }
  AttentionCost cost(const AttentionShape& shape) const override;

 private:
  class Pass;

  void run_forward(const ForwardCall& call) const override;
  void run_backward(const BackwardCall& call) const override;
  void run_accumulate(const AttentionInputs& in, std::span<const float> saved,
                      std::span<const float> signals) const override;

  std::size_t slots(std::size_t n) const { return divide_up(n, config_.stride); }
  // Slots that hold a real key.
  std::size_t real_slots(std::size_t n, std::size_t length, bool causal) const;
  std::size_t remainders(const AttentionShape& s) const { return s.causal ? config_.stride : 1; }
  // The problem of flash for the queries of one remainder; `lengths` has room for the batch.
  AttentionShape part(const AttentionShape& shape, std::size_t remainder,
                      std::span<std::int32_t> lengths) const;
  Work convolution_work(const AttentionShape& shape) const;
  Work sum_work(const AttentionShape& shape) const;

  MemoryCompressedConfig config_;
  Parameter* keys_ = nullptr;    // [heads·d, s·d]
  Parameter* values_ = nullptr;  // [heads·d, s·d]
  FlashAttention flash_;
};

}  // namespace longspan
