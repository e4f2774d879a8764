// Attention within chunks of neighbouring tokens: the local layers of the Reformer (Kitaev et al.,
// 2020, arXiv:2001.04451; Hugging Face's LocalSelfAttention).
//
//   y_i = Σ_j softmax_j(q_i·k_j/√d)·v_j
//
// over the j in the chunk of i, `before` chunks before and `after` behind it; if `circular` the
// chunk before the first is the last. Padded tokens are not seen and give 0. Chunks are cut at
// fixed positions, so causality is exact.
//
// Counts per head, n tokens, p pairs of the chunks and their neighbours, γ tokens gathered by all
// groups:
//
//   forward   MACCs p·(d + e);          softmax 5p + n·(2e + 8)
//   backward  MACCs p·(3d + 2e) + n·e;  softmax 6p;  add n·d + γ·(d + e)
#pragma once

#include "longspan/attention/attention.h"
#include "longspan/kernels/chunk_attention.h"

namespace longspan {

struct ReformerLocalConfig {
  std::size_t chunk = 64;
  std::size_t before = 1;
  std::size_t after = 0;
  bool circular = false;

  bool operator==(const ReformerLocalConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("chunk", chunk);
    see("before", before);
    see("after", after);
    see("circular", circular);
  }
};

class ReformerLocalAttention final : public Attention {
 public:
  static constexpr std::string_view kName = "reformer-local";
  explicit ReformerLocalAttention(const ReformerLocalConfig& config = {});
  std::string_view name() const override { return kName; }
  Abilities abilities() const override { return {.causal = true, .key_lengths = true}; }
  AttentionCost cost(const AttentionShape& shape) const override;

 private:
  struct Tables;
  ChunkLayout layout(const AttentionShape& shape) const;
  ChunkedHead chunked(const AttentionInputs& in, const Tables& tables, std::size_t plane) const;
  void run_forward(const AttentionInputs& in, Heads y, std::span<float> saved,
                   Arena& arena) const override;
  void run_backward(const AttentionInputs& in, ConstHeads y, ConstHeads dy,
                    std::span<const float> saved, const AttentionGradients& grad,
                    std::span<float> signals, Arena& arena) const override;

  ReformerLocalConfig config_;
};

}  // namespace longspan
