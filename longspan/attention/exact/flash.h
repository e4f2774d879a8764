// Exact attention by tiles (Dao et al., 2022, arXiv:2205.14135; Dao, 2023, arXiv:2307.08691).
//
//   y_i = Σ_j softmax_j(q_i·k_j/√d + bias_ij)·v_j      over the keys j that query i may see
//
// As models of today have it, with r = p(i) − j the places from key to query, p(i) = i + n − m:
//
//   l_ij = cap(s·q_i·k_j + bias_ij + d_{r,h}),  cap(x) = c·tanh(x/c)
//   p_ij = e^l_ij/(Σ_j e^l_ij + e^σ_h)           over the keys with −after ≤ r ≤ before
//
// s is `scale`, c `cap`, σ a learned sink for each head (a key without a value), d a bias of the
// distance (distance_bias.h). σ = −∞, c = ∞, d = 0 and windows that hold everything are the above.
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
// The options add, with D = m + n − 1 distances and C chunks of the keys in backward:
//
//   before, after   pairs, τ and ρ are of the keys that are seen
//   cap             softmax 3·h·p forward, 7·h·p backward
//   distances       add h·(D + p) forward and backward
//   of buckets      add h·p + batch·C·h·D backward, update one for each of the table
//   sinks           softmax 4·h·M backward, add h in update
//
// Threads: forward takes (sequence, head, up to 512 queries), or of a few queries (sequence, head,
// part of the keys), whose results are kept until they are merged; backward (sequence, key head, chunk
// of the keys), where a number of chunks c that only the shape decides each have their own dq.
#pragma once

#include "longspan/attention/attention.h"
#include "longspan/attention/exact/distance_bias.h"
#include "longspan/base/number.h"
#include "longspan/kernels/tiled/tiled_attention.h"

namespace longspan {

struct FlashConfig {
  static constexpr std::size_t kAll = 1'000'000'000'000;  // no sequence is longer

  double scale = 0.0;
  double cap = 0.0;
  bool sinks = false;
  std::size_t before = kAll;
  std::size_t after = kAll;
  Choice<DistanceKind> distances = DistanceKind::kNone;
  double slope = 1.0;
  std::size_t buckets = 32;
  std::size_t span = 128;
  bool two_sided = true;
  bool key_bias = true;

  bool operator==(const FlashConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("scale", scale, "of the scores; 0: 1/√d", from_to(0, 1e6));
    see("cap", cap, "scores x become cap·tanh(x/cap); 0: they stay", from_to(0, 1e6));
    see("sinks", sinks, "every head learns the score of a key without a value");
    see("before", before, "earlier tokens that a query sees", from_to(0, 1e12));
    see("after", after, "later tokens that it sees, unless causal", from_to(0, 1e12));
    see("distances", distances, "a bias by how far a key is away");
    see("slope", slope, "alibi: factor of the usual slopes", from_to(0, 1e6));
    see("buckets", buckets, "buckets: how many, of all distances", from_to(4, 65536));
    see("span", span, "buckets: the distance from which on all share the last", from_to(4, 1e6));
    see("two_sided", two_sided, "buckets: later keys have half of them");
    see("key_bias", key_bias, "keys have a bias where queries and values have one");
  }

  bool bounded() const { return before != kAll || after != kAll; }
  bool places() const { return bounded() || distances != DistanceKind::kNone; }
};

class FlashAttention final : public Attention {
 public:
  static constexpr std::string_view kName = "flash";
  static constexpr std::string_view kEquations =
      "y_i = Σ_j softmax_j(q_i·k_j/√d + bias_ij)·v_j   by tiles, the softmax online";
  // Without sinks and buckets, which are learned.
  explicit FlashAttention(const FlashConfig& config = {});
  FlashAttention(const FlashConfig& config, const AttentionSite& site);
  static Abilities can(const FlashConfig& config);
  static Streams streams(const FlashConfig& config, const AttentionLayout& layout) {
    return Streams::qkv(layout, config.key_bias);
  }
  std::string_view name() const override { return kName; }
  AttentionCost cost(const AttentionShape& shape) const override;
  std::size_t reads_back() const override { return reach().before; }

  // backward given D_i = Σ_j P_ij·∂L/∂P_ij, for callers whose loss sees the weights P otherwise
  // than through y: dS = P⊙(dy·vᵀ − D). Without sinks and buckets.
  void backward_with_delta(const AttentionInputs& in, ConstHeads dy, std::span<const float> saved,
                           std::span<const float> delta, const AttentionGradients& grad,
                           Arena& arena) const;
  AttentionCost cost_with_delta(const AttentionShape& shape) const;

 private:
  friend class FlashBackward;
  void run_forward(const ForwardCall& call) const override;
  void forward_few(const ForwardCall& call) const;
  void run_backward(const BackwardCall& call) const override;
  void run_accumulate(const AttentionInputs& in, std::span<const float> saved,
                      std::span<const float> signals) const override;
  void spread_backward(const AttentionInputs& in, ConstHeads dy, std::span<const float> saved,
                       std::span<const float> delta, const AttentionGradients& grad,
                       std::span<float> signals, std::span<TileCounts> counts, Arena& arena) const;

  bool learns_buckets() const { return table_ != nullptr; }
  Buckets buckets() const { return {config_.buckets, config_.span, config_.two_sided}; }
  Reach reach() const;
  float scale(std::size_t d) const;
  std::size_t few_chunks(const AttentionShape& shape) const;
  TileCounts counts_of(const AttentionShape& shape) const;
  Work forward_work(const AttentionShape& shape, const TileCounts& counts) const;
  Work backward_work(const AttentionShape& shape, const TileCounts& counts) const;
  // d of all heads; none without. Counts what is filled.
  std::size_t distance_size(const AttentionShape& shape) const;
  std::span<const float> take_distances(const AttentionShape& shape, TileCounts& counts,
                                        Arena& arena) const;
  TiledHead head(const AttentionInputs& in, std::size_t b, std::size_t h,
                 std::span<const float> distances) const;
  // dσ_h = −Σ_i p_i·D_i, where p_i is what the sink takes of query i.
  void sink_gradient(const AttentionShape& shape, std::span<const float> saved,
                     std::span<const float> delta, std::span<float> to) const;

  FlashConfig config_;
  Parameter* sinks_ = nullptr;  // σ [heads]
  Parameter* table_ = nullptr;  // B [buckets, heads]
};

}  // namespace longspan
