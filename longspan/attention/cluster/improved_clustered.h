// Improved clustered attention (Vyas et al., 2020, arXiv:2007.04825): every query looks itself at
// the keys that its cluster looks at most.
//
//   A^c = softmax(c·kᵀ/√d) of the clusters' centroids, as in clustered.h
//   T_j = the k keys with the largest A^c_jl,  m̂_j = Σ_{l ∈ T_j} A^c_jl
//   A_il = m̂_j·softmax over T_j of q_i·k_l/√d   for l ∈ T_j,  i in cluster j
//   A_il = A^c_jl                                elsewhere
//
// Rows sum to one, and no row is farther from exact attention than that of clustered attention
// (proposition 2 of the paper). Gradients hold clusters and T fixed and are exact otherwise;
// gradient=constant-mass holds m̂ fixed as well, as the authors' code does.
//
// With causal=true a causal mask is accepted: queries see the keys of T_j that are not later, and
// nothing else. The choice of clusters and keys still sees the whole sequence, so later tokens can
// change earlier outputs, and a query all of whose keys are later gives 0.
//
// Counts per head on top of clustered.h, N keys that are no padding, k of them chosen:
//
//   forward   MACCs    C·N·d + C·k·(d + e) + m·k·(d + e)      choosing; A and b; the queries
//             matmul   m·d
//             sort     C·N
//             softmax  2·C·k + m·(4k + 2e + 1)
//   backward  MACCs    C·k·(3d + 4e) + m·k·(3d + 2e)
//             matmul   m·d
//             softmax  2·C·k + m·(8k + 1)
//             add      C·k·(d + e) + m·e + C·d
#pragma once

#include "longspan/attention/cluster/clustered_queries.h"
#include "longspan/attention/exact/flash.h"
#include "longspan/attention/shown.h"
#include "longspan/base/choice.h"
#include "longspan/kernels/hash/cluster_attention.h"

namespace longspan {

// Whether the gradient knows that a cluster's mass on its top keys depends on the queries.
enum class MassGradient : std::uint8_t { kExact, kConstant };
constexpr Names<2> names_of(MassGradient /*kind*/) {
  return {"improved-clustered", "gradient", {"exact", "constant-mass"}};
}

struct ImprovedClusteredConfig {
  std::size_t clusters = 100;
  std::size_t topk = 32;  // k
  std::size_t bits = 63;
  std::size_t iterations = 10;
  Choice<MassGradient> gradient = MassGradient::kExact;
  bool causal = false;  // accept a causal mask
  std::uint64_t seed = 1;

  bool operator==(const ImprovedClusteredConfig&) const = default;
  void show_at(std::size_t tokens) {
    clusters = shown_size(tokens / 8, clusters);
    topk = shown_size(tokens / 8, topk);
  }
  template <class See>
  void visit(See see) {
    see("clusters", clusters, "clusters of the queries of a head, C", from_to(1, 1e6));
    see("topk", topk, "keys that every query weighs itself, k", from_to(1, 1e6));
    see("bits", bits, "bits of a hash", from_to(1, 63));
    see("iterations", iterations, "steps of k-means", from_to(1, 1000));
    see("gradient", gradient, "constant-mass leaves out the derivative of the mass on the k keys");
    see("causal", causal, "accept a causal mask: keys of the k that are not later");
    see("seed", seed, "of the planes that hash");
  }
  ClusteringConfig clustering() const { return {clusters, bits, iterations, seed}; }
};

class ImprovedClusteredAttention final : public Attention {
 public:
  static constexpr std::string_view kName = "improved-clustered";
  static constexpr std::string_view kEquations =
      "A^c = softmax(c·kᵀ/√d) of the centroids, T_j its k largest keys, m̂_j their sum\n"
      "A_il = m̂_j·softmax over T_j of q_i·k_l/√d   for l in T_j,   A^c_jl elsewhere\n"
      "y = A·v";
  ImprovedClusteredAttention(const ImprovedClusteredConfig& config, const AttentionSite& site);
  static Abilities can(const ImprovedClusteredConfig& config);
  std::string_view name() const override { return kName; }
  AttentionCost cost(const AttentionShape& shape) const override;

  // As ClusteredAttention::forward_assigned.
  void forward_assigned(const AttentionInputs& in, std::span<const std::int32_t> assignment,
                        Heads y, std::span<float> saved, Arena& arena) const;
  // T, [batch, heads, clusters, k], that forward kept.
  std::span<const float> saved_keys(std::span<const float> saved,
                                    const AttentionShape& shape) const;

 private:
  class Run;
  void run_forward(const ForwardCall& call) const override;
  void run_backward(const BackwardCall& call) const override;

  ImprovedClusteredConfig config_;
  const Parameter* planes_;
};

}  // namespace longspan
