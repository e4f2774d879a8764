// Clustered attention (Vyas et al., 2020, arXiv:2007.04825): one row of attention per cluster of
// queries.
//
//   clusters of the queries by hash and k-means, centroid c_j = mean of their queries
//   A^c = softmax(c·kᵀ/√d),   y_i = (A^c·v)_j for every query i of cluster j
//
// so row i of the effective matrix is that of the query's centroid. Gradients hold the assignment
// fixed: dc_j from Σ dy_i of the cluster, dq_i = dc_j/size. Only queries are clustered, so m ≠ n is
// fine. It cannot be causal: members of a cluster sit at different positions and would share one
// row.
//
// Counts: clustered_queries.h, and flash.h with m = the number of clusters.
#pragma once

#include "longspan/attention/cluster/clustered_queries.h"
#include "longspan/attention/exact/flash.h"
#include "longspan/attention/shown.h"
#include "longspan/base/number.h"

namespace longspan {

struct ClusteredConfig {
  std::size_t clusters = 100;
  std::size_t bits = 63;
  std::size_t iterations = 10;
  std::uint64_t seed = 1;

  bool operator==(const ClusteredConfig&) const = default;
  void show_at(std::size_t tokens) { clusters = shown_size(tokens / 8, clusters); }
  template <class See>
  void visit(See see) {
    see("clusters", clusters, "clusters of the queries of a head, C", from_to(1, 1e6));
    see("bits", bits, "bits of a hash", from_to(1, 63));
    see("iterations", iterations, "steps of k-means", from_to(1, 1000));
    see("seed", seed, "of the planes that hash");
  }
  ClusteringConfig clustering() const { return {clusters, bits, iterations, seed}; }
};

class ClusteredAttention final : public Attention {
 public:
  static constexpr std::string_view kName = "clustered";
  static constexpr std::string_view kEquations =
      "c_j = mean of the queries of cluster j\n"
      "y_i = (softmax(c·kᵀ/√d)·v)_j   for every query i of cluster j";
  ClusteredAttention(const ClusteredConfig& config, const AttentionSite& site);
  static Abilities can(const ClusteredConfig& config);
  std::string_view name() const override { return kName; }
  AttentionCost cost(const AttentionShape& shape) const override;

  // forward with clusters from elsewhere: [batch, heads, m], −1 for a query that has none, whose
  // output is 0. backward goes by them.
  void forward_assigned(const AttentionInputs& in, std::span<const std::int32_t> assignment,
                        Heads y, std::span<float> saved, Arena& arena) const;

 private:
  void run_forward(const ForwardCall& call) const override;
  void run_backward(const BackwardCall& call) const override;
  void attend(const AttentionInputs& in, const ClusteredQueries& queries, Heads y,
              std::span<float> saved, Arena& arena) const;

  ClusteredConfig config_;
  const Parameter* planes_;
};

}  // namespace longspan
