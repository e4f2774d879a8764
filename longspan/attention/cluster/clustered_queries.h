// Queries in clusters (Vyas et al., 2020, arXiv:2007.04825): what clustered and improved-clustered
// attention share.
//
//   h_i = [P·q_i > t]                             B sign bits, planes [P | t]
//   k-means of the h_i in Hamming space, L Lloyd iterations, at most C clusters
//   c_j = mean of the queries of cluster j        (not of their hashes)
//
// Padded queries (as many tokens as keys, beyond the key length) belong to the nearest cluster but
// count in no mean. With at least as many clusters as queries every query is its own.
//
// Counts per head, M queries of which R are real, C' = min(C, M) clusters:
//
//   MACCs  M·B·(d + 1)
//   hash   M·B + L·R·(3·C' + B) where R > C', + 3·(M − R)·min(C', R)     signs; distances (xor,
//                                                                       count, compare), majorities
//   sort   2·M
//   add    R·d + C'·d                             the means; backward the same to spread them
#pragma once

#include "longspan/attention/attention.h"

namespace longspan {

struct ClusteringConfig {
  std::size_t clusters = 100;   // C
  std::size_t bits = 63;        // B
  std::size_t iterations = 10;  // L
  std::uint64_t seed = 1;
  bool operator==(const ClusteringConfig&) const = default;
};

// The clusters of one call, in the arena. Planes are (sequence, head).
class ClusteredQueries {
 public:
  ClusteredQueries(const ClusteringConfig& config, const AttentionShape& shape);

  // The constant "<site>.planes" [bits, d + 1].
  static const Parameter& declare(const ClusteringConfig& config, const AttentionSite& site);

  std::size_t clusters() const { return clusters_; }  // C'
  // Bytes of arena that book() takes, and those of a call of assign() on top.
  std::size_t bytes() const;
  std::size_t assign_bytes() const;
  void book(Arena& arena);

  // The cluster of every query, from its hash.
  void assign(const AttentionInputs& in, const Parameter& planes, Arena& arena);
  // From elsewhere: [batch, heads, m], −1 for a query without a cluster, whose output is 0.
  void set(std::span<const std::int32_t> assignment);
  // As floats to `saved` and back; m per plane.
  void keep(std::span<float> saved) const;
  void restore(std::span<const float> saved);

  // c_j, dense [batch, heads, C', d].
  void means(const AttentionInputs& in, Heads to) const;
  // The sums of the rows of x by cluster, all queries: [batch, heads, C', width].
  void sums(ConstHeads x, Heads to) const;
  // dq_i += (or =) dc_j/size of the queries that count in the mean.
  void spread_means(ConstHeads dc, bool add, Heads dq) const;
  // y_i = rows[cluster of i], 0 without a cluster.
  void broadcast(ConstHeads rows, Heads y) const;

  // The queries of cluster j in ascending order; j = C' are those without.
  std::span<const std::int32_t> members(std::size_t plane, std::size_t j) const;
  std::size_t real(std::size_t b) const;

  Work assign_work() const;
  Work mean_work() const;
  Work spread_work() const;

 private:
  struct Piece;
  template <class Body>
  void for_each_cluster(std::size_t count, Body body) const;
  // How many members of cluster j count in its mean: the first ones.
  std::size_t counted(std::size_t plane, std::size_t j) const;
  void sort();
  std::size_t planes() const { return s_.batch * s_.heads; }
  std::uint64_t real_queries() const;

  ClusteringConfig config_;
  AttentionShape s_;
  std::size_t clusters_;
  std::span<std::int32_t> assignment_;  // [planes][m]
  std::span<std::int32_t> order_;       // [planes][m]
  std::span<std::int32_t> first_;       // [planes][C' + 2]
};

}  // namespace longspan
