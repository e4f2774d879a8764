// Sliding-window attention (Beltagy et al., 2020, arXiv:2004.05150, without global tokens).
//
//   y_i = Σ_j softmax_j(q_i·k_j/√d)·v_j   over j = i + t·dilation, −before ≤ t ≤ after
//
// `window` neighbours in all: before = after = ⌊window/2⌋, or before = window and after = 0 where
// only earlier tokens count (causal, or two_sided = false). Dilation makes as many interleaved
// sequences of one, each with a plain window. Causal, m < n queries are the last of n tokens, so
// that decoding reads a cache of keys and values.
//
// Exact for the keys it looks at; equal to full attention when the window covers the sequence.
// Counts: block_sparse.h with p = Σ_i of the keys that exist.
#pragma once

#include "longspan/attention/attention.h"
#include "longspan/attention/pattern/pattern.h"
#include "longspan/attention/shown.h"
#include "longspan/base/number.h"

namespace longspan {

struct WindowConfig {
  std::size_t window = 256;  // neighbours, of both sides together
  std::size_t dilation = 1;  // distance between neighbours
  bool two_sided = true;     // false: only earlier tokens, as if causal

  bool operator==(const WindowConfig&) const = default;
  void show_at(std::size_t tokens) { window = 2 * shown_size(tokens / 16, window / 2); }
  template <class See>
  void visit(See see) {
    see("window", window, "neighbours, of both sides together", from_to(0, 1e7));
    see("dilation", dilation, "distance between neighbours", from_to(1, 1e7));
    see("two_sided", two_sided, "false: only earlier tokens, as if causal");
  }
};

class WindowAttention final : public Attention, public FixedPattern {
 public:
  static constexpr std::string_view kName = "window";
  static constexpr std::string_view kEquations =
      "y_i = Σ_j softmax_j(q_i·k_j/√d)·v_j\n"
      "over j = i + t·dilation, |t| ≤ ⌊window/2⌋";
  explicit WindowAttention(const WindowConfig& config = {})
      : Attention(can(config)), config_(config) {}
  static Abilities can(const WindowConfig& config);
  std::string_view name() const override { return kName; }
  AttentionCost cost(const AttentionShape& shape) const override;
  std::string_view reason(const AttentionShape& shape, std::size_t head, std::size_t i,
                          std::size_t j) const override;
  const WindowConfig& config() const { return config_; }

 private:
  void run_forward(const ForwardCall& call) const override;
  void run_backward(const BackwardCall& call) const override;

  WindowConfig config_;
};

}  // namespace longspan
