// Longformer (Beltagy et al., 2020, arXiv:2004.05150): a sliding window and a few global tokens.
//
//   local  i   y_i = Σ_j softmax_j(q_i·k_j/√d)·v_j     j in the window of i or global, once each
//   global i   y_i = Σ_j softmax_j(q^g_i·k^g_j/√d)·v^g_j                        every j
//   q^g, k^g, v^g = x·W_gᵀ + b_g, streams on call
//
// The window has ⌊window/2⌋ tokens on each side, `dilation` apart: "1", or one per head as
// "1:1:2:4", repeated if there are more heads. Global tokens are those of mask.globals, or the
// first `global` of each sequence. Local queries see global keys through the local projections.
//
// Causal: of all of these the keys j ≤ i, so that the window has one side. Keys behind the last
// global token are seen by no global query and not projected: N is n, or its position + 1.
//
// Decoding keeps k^g and v^g of the first `global` tokens beside keys and values; behind them a
// token costs its window and the globals.
//
// Counts: block_sparse.h with p = Σ_i of the window and the globals (the rows of global queries are
// computed and dropped), and again with G global queries × N keys; with w = heads·d
//   forward   (2·B·N + G)·w·d_model MACCs and biases;  backward the same MACCs;
//   update    the same MACCs, (2·B·N + G)·w of add
#pragma once

#include <string>
#include <vector>

#include "longspan/attention/attention.h"
#include "longspan/attention/pattern/pattern.h"
#include "longspan/attention/shown.h"
#include "longspan/base/number.h"

namespace longspan {

struct LongformerConfig {
  std::size_t window = 512;  // neighbours, of both sides together
  std::string dilation = "1";
  std::size_t global = 1;  // the first tokens, where the mask does not say

  bool operator==(const LongformerConfig&) const = default;
  void show_at(std::size_t tokens) { window = 2 * shown_size(tokens / 16, window / 2); }
  template <class See>
  void visit(See see) {
    see("window", window, "neighbours, of both sides together", from_to(0, 1e7));
    see("dilation", dilation, "distance between neighbours; by head as 1:1:2:4");
    see("global", global, "the first tokens are global, where the batch marks none",
        from_to(0, 1e7));
  }
};

struct LongformerGlobals;

class LongformerAttention final : public Attention, public FixedPattern {
 public:
  static constexpr std::string_view kName = "longformer";
  static constexpr std::string_view kEquations =
      "local i:   y_i = Σ_j softmax_j(q_i·k_j/√d)·v_j   j in the window of i or global\n"
      "global i:  y_i = Σ_j softmax_j(q^g_i·k^g_j/√d)·v^g_j   every j";
  LongformerAttention(const LongformerConfig& config, const AttentionSite& site);
  static Abilities can(const LongformerConfig& config);
  static Streams streams(const LongformerConfig& config, const AttentionLayout& layout);
  std::string_view name() const override { return kName; }
  AttentionCost cost(const AttentionShape& shape) const override;
  std::size_t note_floats(const AttentionShape& shape) const override;
  std::string_view reason(const AttentionShape& shape, std::size_t head, std::size_t i,
                          std::size_t j) const override;

  const LongformerConfig& config() const { return config_; }
  std::size_t dilation(std::size_t head) const { return dilations_[head % dilations_.size()]; }
  bool one_dilation() const { return dilations_.size() == 1; }
  bool is_global(const AttentionShape& shape, std::size_t b, std::size_t i) const;

 private:
  struct Projected;

  void check_more(const AttentionShape& shape) const override;
  void run_forward(const ForwardCall& call) const override;
  void run_backward(const BackwardCall& call) const override;
  void run_accumulate(const AttentionInputs& in, std::span<const float> saved,
                      std::span<const float> signals) const override;

  // Calls f(b, first token, count, index of the first among the globals of b).
  template <class F>
  void for_each_run(const AttentionShape& shape, F f) const;
  std::size_t count_globals(const AttentionShape& shape) const;
  LongformerGlobals find_globals(const AttentionShape& shape,
                                 std::span<std::uint32_t> memory) const;
  // Decoding: the last m of n tokens, or notes are kept. Then the first tokens alone are global.
  static bool decodes(const AttentionShape& s) { return s.notes || s.m < s.n; }
  std::size_t fresh_globals(const AttentionShape& shape) const;
  AttentionCost cached_cost(const AttentionShape& shape) const;
  void run_cached(const AttentionInputs& in, Heads y, Arena& arena) const;
  std::size_t width() const { return query_.columns(); }

  LongformerConfig config_;
  std::vector<std::size_t> dilations_;
  Projection query_;      // q^g
  Projection key_value_;  // k^g|v^g
};

}  // namespace longspan
