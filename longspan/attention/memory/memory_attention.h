// Attention with persistent memory (Sukhbaatar et al., 2019, arXiv:1907.01470): every head has p
// learned keys and values that every query sees, beside those of the sequence.
//
//   y_i = softmax(q_i·[K; M_K]ᵀ/√d)·[V; M_V]      over the keys that query i may see and all p
//   slots
//
// Nothing is copied: both parts are attended to as they lie, flash for the sequence, and joined by
// the logarithms L of their sums,
//
//   L = log(e^{L₁} + e^{L₂}),   y = e^{L₁−L}·y₁ + e^{L₂−L}·y₂,
//
// and backward takes each part with the L and y of the whole. Decoding needs the cache of the
// sequence alone.
//
// Counts: flash, and for M = batch·heads·m queries
//
//   forward   flash over p keys, and softmax M·(2e + 6) to join
//   backward  flash over p keys, and add M·d (dq)
//   update    add batch·heads·p·(d + e)
#pragma once

#include "longspan/attention/attention.h"
#include "longspan/attention/exact/flash.h"
#include "longspan/base/number.h"

namespace longspan {

struct MemoryConfig {
  std::size_t tokens = 16;  // p
  bool operator==(const MemoryConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("tokens", tokens, "learned keys and values of a head, p", from_to(1, 65536));
  }
};

class MemoryAttention final : public Attention {
 public:
  static constexpr std::string_view kName = "memory";
  static constexpr std::string_view kEquations =
      "y_i = softmax(q_i·[k; M_K]ᵀ/√d)·[v; M_V]   M_K, M_V [p, d] learned";
  MemoryAttention(const MemoryConfig& config, const AttentionSite& site);
  static Abilities can(const MemoryConfig& config);
  std::string_view name() const override { return kName; }
  AttentionCost cost(const AttentionShape& shape) const override;

 private:
  void run_forward(const ForwardCall& call) const override;
  void run_backward(const BackwardCall& call) const override;
  void run_accumulate(const AttentionInputs& in, std::span<const float> saved,
                      std::span<const float> signals) const override;
  AttentionShape memory_shape(const AttentionShape& shape) const;
  AttentionInputs memory_inputs(const AttentionInputs& in) const;

  MemoryConfig config_;
  Parameter* keys_ = nullptr;    // [heads·p, d]
  Parameter* values_ = nullptr;  // [heads·p, d]
  FlashAttention flash_;
};

}  // namespace longspan
