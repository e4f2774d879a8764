#include "longspan/attention/cluster/clustered.h"

#include "longspan/base/error.h"
#include "longspan/base/number.h"

namespace longspan {

namespace {

// The centroids in place of the queries.
AttentionShape centroid_shape(AttentionShape s, const ClusteredQueries& queries) {
  s.m = queries.clusters();
  return s;
}

std::size_t row_bytes(const AttentionShape& s, const ClusteredQueries& queries, std::size_t width) {
  return Arena::bytes_for(s.batch * s.heads * queries.clusters() * width);
}

Heads take_rows(const AttentionShape& s, const ClusteredQueries& queries, std::size_t width,
                Arena& arena) {
  const std::size_t clusters = queries.clusters();
  return {arena.take(s.batch * s.heads * clusters * width).data(), s.batch, s.heads, clusters,
          width};
}

}  // namespace

Abilities ClusteredAttention::can(const ClusteredConfig& config) {
  check_numbers(kName, config);
  return {.cross = true, .key_lengths = true, .grouped_heads = true};
}

ClusteredAttention::ClusteredAttention(const ClusteredConfig& config, const AttentionSite& site)
    : Attention(can(config)),
      config_(config),
      planes_(&ClusteredQueries::declare(config.clustering(), site)) {}

AttentionCost ClusteredAttention::cost(const AttentionShape& s) const {
  const ClusteredQueries queries(config_.clustering(), s);
  const AttentionCost flash = FlashAttention().cost(centroid_shape(s, queries));
  AttentionCost cost;
  cost.forward = queries.assign_work() + queries.mean_work() + flash.forward;
  cost.backward = queries.mean_work() + queries.spread_work() + flash.backward;
  cost.saved = s.batch * s.heads * s.m + flash.saved;
  const std::size_t rows = row_bytes(s, queries, s.d) + row_bytes(s, queries, s.e);
  cost.forward_scratch =
      queries.bytes() + std::max(queries.assign_bytes(),
                                 rows + Arena::bytes_for(flash.saved) + flash.forward_scratch);
  cost.backward_scratch = queries.bytes() + 2 * rows + flash.backward_scratch;
  return cost;
}

void ClusteredAttention::attend(const AttentionInputs& in, const ClusteredQueries& queries, Heads y,
                                std::span<float> saved, Arena& arena) const {
  const AttentionShape s = shape_of(in);
  const Heads centroids = take_rows(s, queries, s.d, arena);
  const Heads values = take_rows(s, queries, s.e, arena);
  const std::span<float> levels = arena.take(s.batch * s.heads * queries.clusters());
  queries.means(in, centroids);
  AttentionInputs few = in;
  few.q = centroids;
  FlashAttention().forward({few, values, levels, arena});
  queries.broadcast(values, y);
  if (!saved.empty()) {
    queries.keep(saved);
    std::ranges::copy(levels, saved.begin() + static_cast<std::ptrdiff_t>(s.batch * s.heads * s.m));
  }
  report(queries.mean_work());
}

void ClusteredAttention::run_forward(const ForwardCall& call) const {
  const AttentionInputs& in = call.in;
  const Heads y = call.y;
  const std::span<float> saved = call.saved;
  Arena& arena = call.arena;
  ClusteredQueries queries(config_.clustering(), shape_of(in));
  queries.book(arena);
  queries.assign(in, *planes_, arena);
  report(queries.assign_work());
  attend(in, queries, y, saved, arena);
}

void ClusteredAttention::forward_assigned(const AttentionInputs& in,
                                          std::span<const std::int32_t> assignment, Heads y,
                                          std::span<float> saved, Arena& arena) const {
  const Arena::Frame frame(arena);
  ClusteredQueries queries(config_.clustering(), shape_of(in));
  queries.book(arena);
  queries.set(assignment);
  attend(in, queries, y, saved, arena);
}

void ClusteredAttention::run_backward(const BackwardCall& call) const {
  const AttentionInputs& in = call.in;
  const ConstHeads y = call.y;
  const ConstHeads dy = call.dy;
  const std::span<const float> saved = call.saved;
  const AttentionGradients& grad = call.grad;
  Arena& arena = call.arena;
  const AttentionShape s = shape_of(in);
  const std::size_t queries_saved = s.batch * s.heads * s.m;
  ClusteredQueries queries(config_.clustering(), s);
  queries.book(arena);
  queries.restore(saved.first(queries_saved));
  const Heads centroids = take_rows(s, queries, s.d, arena);
  const Heads values = take_rows(s, queries, s.e, arena);
  const Heads dcentroids = take_rows(s, queries, s.d, arena);
  const Heads dvalues = take_rows(s, queries, s.e, arena);
  queries.means(in, centroids);
  queries.sums(dy, dvalues);
  // Every member has its cluster's value; where there is none, nothing depends on it.
  for (std::size_t at = 0; at < s.batch * s.heads * queries.clusters(); ++at) {
    const std::size_t plane = at / queries.clusters();
    const std::size_t j = at % queries.clusters();
    const std::size_t b = plane / s.heads;
    const std::size_t h = plane % s.heads;
    const auto members = queries.members(plane, j);
    const std::span<float> value = values.head(b, h).row(j);
    std::ranges::fill(value, 0.0F);
    if (members.empty()) continue;
    std::ranges::copy(y.head(b, h).row(static_cast<std::size_t>(members[0])), value.begin());
  }
  AttentionInputs few = in;
  few.q = centroids;
  FlashAttention().backward({few,
                             values,
                             dvalues,
                             saved.subspan(queries_saved),
                             {.q = dcentroids, .k = grad.k, .v = grad.v},
                             {},
                             arena});
  queries.spread_means(dcentroids, false, grad.q);
  report(queries.mean_work() + queries.spread_work());
}

}  // namespace longspan
