// Linformer: keys and values projected along the sequence (Wang et al., 2020, arXiv:2006.04768).
//
//   K̄ = E·K,  V̄ = F·V   with E, F [k, n]        y = softmax(q·K̄ᵀ/√d)·V̄
//
// E and F are learned for the longest sequence; a shorter one uses their first columns. Keys that
// are padding are left out of the projection, which is the only place where they can be. Every slot
// mixes all positions, so there is no causal form.
//
//   sharing     E and F are     parameters per stack of L layers with h heads
//   none        per head        2·k·n·h·L
//   headwise    per layer       2·k·n·L
//   key-value   one per layer   k·n·L          E = F
//   layerwise   one per stack   k·n            E = F
//
// projection=convolution learns a kernel of w = ⌈n_max/k⌉ weights instead (stride w, one weight per
// offset, shared as above); projection=pool takes means of w tokens and learns nothing. They have
// ⌈n/w⌉ slots.
//
// Counts, with N the keys that are not padding and s slots per sequence (kv heads g, heads h):
//
//   forward   MACCs  g·N·k·(d + e), or g·N·(d + e) if not learned; then flash over s keys
//   backward  MACCs  flash; the same again for dk and dv
//   update    MACCs  the same again for dE and dF
//
// Sequences so short that q·Kᵀ before the projection takes fewer MACCs, n < 2k·d/(d + k) for n = m
// and d = e, are computed in that order (linformer_scores.h).
#pragma once

#include "longspan/attention/attention.h"
#include "longspan/attention/exact/flash.h"
#include "longspan/attention/shown.h"
#include "longspan/base/choice.h"
#include "longspan/base/integers.h"

namespace longspan {

enum class LinformerSharing : std::uint8_t { kNone, kHeadwise, kKeyValue, kLayerwise };
constexpr Names<4> names_of(LinformerSharing /*kind*/) {
  return {"linformer", "sharing", {"none", "headwise", "key-value", "layerwise"}};
}
enum class LinformerProjection : std::uint8_t { kLearned, kConvolution, kPool };
constexpr Names<3> names_of(LinformerProjection /*kind*/) {
  return {"linformer", "projection", {"learned", "convolution", "pool"}};
}

struct LinformerConfig {
  std::size_t k = 256;
  Choice<LinformerSharing> sharing = LinformerSharing::kHeadwise;
  Choice<LinformerProjection> projection = LinformerProjection::kLearned;
  std::size_t length = 0;  // of the longest sequence; 0: the model's
  bool operator==(const LinformerConfig&) const = default;
  void show_at(std::size_t tokens) { k = shown_size(tokens / 8, k); }
  template <class See>
  void visit(See see) {
    see("k", k, "slots that the sequence is projected to", from_to(1, 65536));
    see("sharing", sharing, "who has the same E and F");
    see("projection", projection, "convolution and pool shorten by neighbours");
    see("length", length, "of the longest sequence; 0: the model's", from_to(0, 1e9));
  }
};

class LinformerAttention final : public Attention {
 public:
  static constexpr std::string_view kName = "linformer";
  static constexpr std::string_view kEquations =
      "K̄ = E·k,  V̄ = F·v   with E, F [k, n]\n"
      "y = softmax(q·K̄ᵀ/√d)·V̄";
  LinformerAttention(const LinformerConfig& config, const AttentionSite& site);
  static Abilities can(const LinformerConfig& config);
  std::string_view name() const override { return kName; }
  AttentionCost cost(const AttentionShape& shape) const override;

  std::size_t slots(std::size_t length) const;

 private:
  class Pass;

  void check_more(const AttentionShape& shape) const override;
  void run_forward(const ForwardCall& call) const override;
  void run_backward(const BackwardCall& call) const override;
  void run_accumulate(const AttentionInputs& in, std::span<const float> saved,
                      std::span<const float> signals) const override;
  // Tokens per slot of a convolution or pool.
  std::size_t window() const { return divide_up(max_length_, config_.k); }
  bool scores_first(const AttentionShape& shape) const;
  AttentionShape slot_shape(const AttentionShape& shape, std::span<std::int32_t> lengths) const;
  Work projection_work(const AttentionShape& shape) const;

  LinformerConfig config_;
  std::size_t max_length_ = 0;
  Parameter* e_ = nullptr;  // [k or heads·k, n_max]; a kernel is [1 or heads, w]
  Parameter* f_ = nullptr;  // e_ itself if shared
  FlashAttention flash_;
};

}  // namespace longspan
