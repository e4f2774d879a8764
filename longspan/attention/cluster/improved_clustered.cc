#include "longspan/attention/cluster/improved_clustered.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "longspan/base/integers.h"
#include "longspan/base/number.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/hash/cluster_keys.h"
#include "longspan/kernels/rows/gather.h"
#include "longspan/kernels/tiled/tiled_attention.h"

namespace longspan {

namespace {

constexpr std::size_t kTopClusters = 4;  // clusters of a task
constexpr std::size_t kColumns = 16;     // columns of dk or dv that a task sums

}  // namespace

// One call: its memory and its phases. Planes are (sequence, head).
class ImprovedClusteredAttention::Run {
 public:
  Run(const ImprovedClusteredConfig& config, const AttentionShape& shape)
      : config_(config),
        s_(shape),
        queries_(config.clustering(), shape),
        planes_(shape.batch * shape.heads),
        clusters_(queries_.clusters()),
        top_(std::min(config.topk, shape.n)),
        rows_(planes_ * clusters_) {}

  ClusteredQueries& queries() { return queries_; }
  bool bottom() const { return !s_.causal; }
  AttentionShape centroid_shape() const {
    AttentionShape s = s_;
    s.m = clusters_;
    s.causal = false;
    return s;
  }

  // Floats to keep: the clusters of the queries, then L, V^c and T of the clusters.
  std::size_t saved() const { return planes_ * s_.m + rows_ * (1 + s_.e + top_); }
  std::size_t keys_at() const { return planes_ * s_.m + rows_ * (1 + s_.e); }

  std::size_t forward_bytes(const AttentionCost& flash) const {
    const std::size_t choosing =
        Arena::bytes_for(workers() * top_keys_floats(s_.d, top_)) +
        Arena::bytes_for<std::int32_t>(workers() * top_keys_integers(top_));
    const std::size_t attending =
        Arena::bytes_for(workers() * cluster_forward_scratch(s_.d, s_.e, top_));
    const std::size_t exact = bottom() ? flash.forward_scratch : 0;
    return queries_.bytes() + std::max(queries_.assign_bytes(),
                                       table_bytes() + std::max({exact, choosing, attending}));
  }

  std::size_t backward_bytes(const AttentionCost& flash) const {
    const std::size_t attending =
        Arena::bytes_for(workers() * cluster_backward_scratch(s_.d, s_.e, top_));
    const std::size_t exact = bottom() ? flash.backward_scratch : 0;
    return queries_.bytes() + table_bytes() + 2 * Arena::bytes_for(rows_ * s_.d) +
           Arena::bytes_for(rows_ * s_.e) + Arena::bytes_for(rows_) +
           Arena::bytes_for(rows_ * top_ * s_.d) + Arena::bytes_for(rows_ * top_ * s_.e) +
           std::max(attending, exact);
  }

  Work forward_work(const AttentionCost& flash) const {
    const std::uint64_t chosen = rows_ * top_;
    const std::uint64_t pairs = planes_ * s_.m * top_;
    const std::uint64_t offered = s_.heads * clusters_ * real_keys(s_);
    Work work = queries_.mean_work();
    if (bottom()) work += flash.forward;
    work.maccs += offered * s_.d + (chosen + pairs) * (s_.d + s_.e);
    work[Kind::kMatmul] += planes_ * s_.m * s_.d;
    work[Kind::kSort] += offered;
    work[Kind::kSoftmax] += 2 * chosen + 4 * pairs + planes_ * s_.m * (2 * s_.e + 1);
    work.bytes[static_cast<std::size_t>(Kind::kGather)] +=
        4 * (chosen + planes_ * s_.m) * (s_.d + s_.e);
    return work;
  }

  Work backward_work(const AttentionCost& flash) const {
    const std::uint64_t chosen = rows_ * top_;
    const std::uint64_t pairs = planes_ * s_.m * top_;
    Work work = queries_.mean_work() + queries_.spread_work();
    if (bottom()) work += flash.backward;
    work.maccs += chosen * (3 * s_.d + 4 * s_.e) + pairs * (3 * s_.d + 2 * s_.e);
    work[Kind::kMatmul] += planes_ * s_.m * s_.d;
    work[Kind::kSoftmax] += 2 * chosen + 8 * pairs + planes_ * s_.m;
    work[Kind::kAdd] += chosen * (s_.d + s_.e) + planes_ * s_.m * s_.e + rows_ * s_.d;
    work.bytes[static_cast<std::size_t>(Kind::kGather)] +=
        8 * (chosen + planes_ * s_.m) * (s_.d + s_.e);
    return work;
  }

  void book(Arena& arena) { queries_.book(arena); }

  void forward(const AttentionInputs& in, Heads y, Arena& arena) {
    take_tables(arena);
    queries_.means(in, centroids_);
    if (bottom()) FlashAttention().forward({centroid_inputs(in), values_, levels_, arena});
    choose_keys(in, arena);
    const Arena::Frame frame(arena);
    const std::size_t floats = cluster_forward_scratch(s_.d, s_.e, top_);
    const auto scratch = arena.take(workers() * floats);
    for_each_cluster([&](std::size_t plane, std::size_t j, std::size_t worker) {
      const Matrix to = y.head(plane / s_.heads, plane % s_.heads);
      if (j < clusters_) {
        return cluster_forward(task(in, plane, j), to, scratch.data() + worker * floats);
      }
      for (const std::int32_t i : queries_.members(plane, j)) {
        std::ranges::fill(to.row(static_cast<std::size_t>(i)), 0.0F);
      }
    });
  }

  void keep(std::span<float> saved) const {
    float* to = saved.data();
    queries_.keep(saved);
    to += planes_ * s_.m;
    std::ranges::copy(levels_, to);
    std::memcpy(to + rows_, values_.data, rows_ * s_.e * sizeof(float));
    std::memcpy(to + rows_ * (1 + s_.e), keys_.data(), keys_.size_bytes());
  }

  void backward(const AttentionInputs& in, ConstHeads dy, std::span<const float> saved,
                const AttentionGradients& grad, Arena& arena) {
    restore(in, saved, arena);
    const Heads dcentroids = take_rows(s_.d, arena);
    const Heads dense = take_rows(s_.d, arena);
    const Heads dvalues = take_rows(s_.e, arena);
    const auto delta = arena.take(rows_);
    const auto dk = arena.take(rows_ * top_ * s_.d);
    const auto dv = arena.take(rows_ * top_ * s_.e);
    {
      const Arena::Frame frame(arena);
      const std::size_t floats = cluster_backward_scratch(s_.d, s_.e, top_);
      const auto scratch = arena.take(workers() * floats);
      for_each_cluster([&](std::size_t plane, std::size_t j, std::size_t worker) {
        const std::size_t b = plane / s_.heads;
        const std::size_t h = plane % s_.heads;
        const Matrix dq = grad.q.head(b, h);
        if (j == clusters_) {
          for (const std::int32_t i : queries_.members(plane, j)) {
            std::ranges::fill(dq.row(static_cast<std::size_t>(i)), 0.0F);
          }
          return;
        }
        const std::size_t at = plane * clusters_ + j;
        ClusterGradient g;
        g.dy = dy.head(b, h);
        g.constant_mass = config_.gradient == MassGradient::kConstant;
        g.dq = dq;
        g.dk = Matrix(dk.data() + at * top_ * s_.d, top_, s_.d);
        g.dv = Matrix(dv.data() + at * top_ * s_.e, top_, s_.e);
        g.dvalue = dvalues.head(b, h).row(j);
        g.dcentroid = dcentroids.head(b, h).row(j);
        g.delta = &delta[at];
        cluster_backward(task(in, plane, j), g, scratch.data() + worker * floats);
      });
    }
    exact_backward(in, dvalues, delta, dense, grad, arena);
    add_chosen(in, dk, s_.d, grad.k);
    add_chosen(in, dv, s_.e, grad.v);
    if (!bottom()) return;
    for (std::size_t i = 0; i < rows_ * s_.d; ++i) dcentroids.data[i] += dense.data[i];
    queries_.spread_means(dcentroids, true, grad.q);
  }

 private:
  std::size_t table_bytes() const {
    return Arena::bytes_for(rows_ * s_.d) + Arena::bytes_for(rows_ * s_.e) +
           Arena::bytes_for(rows_) + Arena::bytes_for<std::int32_t>(rows_ * top_);
  }
  Heads take_rows(std::size_t width, Arena& arena) const {
    return {arena.take(rows_ * width).data(), s_.batch, s_.heads, clusters_, width};
  }
  void take_tables(Arena& arena) {
    centroids_ = take_rows(s_.d, arena);
    values_ = take_rows(s_.e, arena);
    levels_ = arena.take(rows_);
    keys_ = arena.take<std::int32_t>(rows_ * top_);
  }
  void restore(const AttentionInputs& in, std::span<const float> saved, Arena& arena) {
    queries_.restore(saved.first(planes_ * s_.m));
    take_tables(arena);
    queries_.means(in, centroids_);
    const float* from = saved.data() + planes_ * s_.m;
    std::copy_n(from, rows_, levels_.data());
    std::memcpy(values_.data, from + rows_, rows_ * s_.e * sizeof(float));
    std::memcpy(keys_.data(), from + rows_ * (1 + s_.e), keys_.size_bytes());
  }

  std::size_t kv_head(std::size_t h) const { return h / (s_.heads / s_.kv_heads); }
  // Keys that the queries of sequence b choose.
  std::size_t chosen(const AttentionInputs& in, std::size_t b) const {
    return std::min(top_, in.mask.keys(b, s_.n));
  }
  AttentionInputs centroid_inputs(const AttentionInputs& in) const {
    AttentionInputs few = in;
    few.q = centroids_;
    few.mask.causal = false;
    return few;
  }

  ClusterTask task(const AttentionInputs& in, std::size_t plane, std::size_t j) const {
    const std::size_t b = plane / s_.heads;
    const std::size_t h = plane % s_.heads;
    const std::size_t at = plane * clusters_ + j;
    ClusterTask t;
    t.q = in.q.head(b, h);
    t.k = in.k.head(b, kv_head(h));
    t.v = in.v.head(b, kv_head(h));
    t.scale = 1.0F / std::sqrt(static_cast<float>(s_.d));
    t.members = queries_.members(plane, j);
    t.keys = keys_.subspan(at * top_, chosen(in, b));
    t.bottom = bottom();
    t.centroid = centroids_.head(b, h).row(j);
    t.value = values_.head(b, h).row(j);
    t.level = levels_[at];
    return t;
  }

  void choose_keys(const AttentionInputs& in, Arena& arena) {
    const Arena::Frame frame(arena);
    const std::size_t floats = top_keys_floats(s_.d, top_);
    const std::size_t integers = top_keys_integers(top_);
    const auto scratch = arena.take(workers() * floats);
    const auto heaps = arena.take<std::int32_t>(workers() * integers);
    const std::size_t blocks = divide_up(clusters_, kQueryBlock);
    parallel_for(planes_ * blocks, [&](std::size_t item, std::size_t worker) {
      const std::size_t plane = item / blocks;
      const std::size_t b = plane / s_.heads;
      const std::size_t h = plane % s_.heads;
      const std::size_t first = item % blocks * kQueryBlock;
      const std::size_t count = std::min(kQueryBlock, clusters_ - first);
      const std::size_t k = chosen(in, b);
      std::int32_t* to = keys_.data() + (plane * clusters_ + first) * top_;
      if (k > 0) {
        top_keys(centroids_.head(b, h).slice_rows(first, count),
                 in.k.head(b, kv_head(h)).slice_rows(0, in.mask.keys(b, s_.n)), k, to,
                 scratch.data() + worker * floats, heaps.data() + worker * integers);
      }
      // Rows of k become rows of top_, from the last.
      for (std::size_t j = count; j-- > 0 && k < top_;) {
        std::copy_backward(to + j * k, to + (j + 1) * k, to + j * top_ + k);
        std::fill(to + j * top_ + k, to + (j + 1) * top_, -1);
      }
    });
  }

  // Calls body(plane, j, worker) for each cluster, and for j = C' with the queries that have none.
  template <class Body>
  void for_each_cluster(Body body) const {
    const std::size_t groups = divide_up(clusters_ + 1, kTopClusters);
    parallel_for(planes_ * groups, [&](std::size_t item, std::size_t worker) {
      const std::size_t first = item % groups * kTopClusters;
      for (std::size_t j = first; j < std::min(first + kTopClusters, clusters_ + 1); ++j) {
        body(item / groups, j, worker);
      }
    });
  }

  // What all keys give to the centroids, and they to all keys.
  void exact_backward(const AttentionInputs& in, Heads dvalues, std::span<const float> delta,
                      Heads dcentroids, const AttentionGradients& grad, Arena& arena) const {
    if (bottom()) {
      FlashAttention().backward_with_delta({.in = centroid_inputs(in),
                                            .y = {},
                                            .dy = dvalues,
                                            .saved = levels_,
                                            .grad = {.q = dcentroids, .k = grad.k, .v = grad.v},
                                            .signals = {},
                                            .arena = arena},
                                           delta);
      return;
    }
    parallel_for(s_.batch * s_.kv_heads, [&](std::size_t plane, std::size_t) {
      for (const Heads& to : {grad.k, grad.v}) {
        const Matrix rows = to.head(plane / s_.kv_heads, plane % s_.kv_heads);
        for (std::size_t j = 0; j < rows.rows; ++j) std::ranges::fill(rows.row(j), 0.0F);
      }
    });
  }

  // The clusters' gradients of their keys go where the keys are; a task has some of the columns of
  // all, so that every sum has one order.
  void add_chosen(const AttentionInputs& in, std::span<const float> from, std::size_t width,
                  Heads to) const {
    const std::size_t blocks = divide_up(width, kColumns);
    const std::size_t group = s_.heads / s_.kv_heads;
    parallel_for(s_.batch * s_.kv_heads * blocks, [&](std::size_t item, std::size_t) {
      const std::size_t b = item / blocks / s_.kv_heads;
      const std::size_t kv = item / blocks % s_.kv_heads;
      const std::size_t first = item % blocks * kColumns;
      const std::size_t count = std::min(kColumns, width - first);
      const std::size_t k = chosen(in, b);
      const Matrix sums = to.head(b, kv);
      for (std::size_t at = (b * s_.heads + kv * group) * clusters_;
           at < (b * s_.heads + (kv + 1) * group) * clusters_; ++at) {
        const ConstMatrix more(from.data() + at * top_ * width, k, width);
        scatter_rows(more.slice_cols(first, count), keys_.subspan(at * top_, k),
                     sums.slice_cols(first, count));
      }
    });
  }

  const ImprovedClusteredConfig& config_;
  AttentionShape s_;
  ClusteredQueries queries_;
  std::size_t planes_;
  std::size_t clusters_;
  std::size_t top_;
  std::size_t rows_;
  Heads centroids_, values_;
  std::span<float> levels_;
  std::span<std::int32_t> keys_;  // [planes][C'][top_]
};

Abilities ImprovedClusteredAttention::can(const ImprovedClusteredConfig& config) {
  check_numbers(kName, config);
  return {.causal = config.causal, .cross = true, .key_lengths = true, .grouped_heads = true};
}

ImprovedClusteredAttention::ImprovedClusteredAttention(const ImprovedClusteredConfig& config,
                                                       const AttentionSite& site)
    : Attention(can(config)),
      config_(config),
      planes_(&ClusteredQueries::declare(config.clustering(), site)) {}

AttentionCost ImprovedClusteredAttention::cost(const AttentionShape& s) const {
  Run run(config_, s);
  const AttentionCost flash = FlashAttention().cost_with_delta(run.centroid_shape());
  AttentionCost cost;
  cost.forward = run.queries().assign_work() + run.forward_work(flash);
  cost.backward = run.backward_work(flash);
  cost.saved = run.saved();
  cost.forward_scratch = run.forward_bytes(flash);
  cost.backward_scratch = run.backward_bytes(flash);
  return cost;
}

std::span<const float> ImprovedClusteredAttention::saved_keys(std::span<const float> saved,
                                                              const AttentionShape& shape) const {
  return saved.subspan(Run(config_, shape).keys_at());
}

void ImprovedClusteredAttention::run_forward(const ForwardCall& call) const {
  const AttentionInputs& in = call.in;
  const Heads y = call.y;
  const std::span<float> saved = call.saved;
  Arena& arena = call.arena;
  Run run(config_, shape_of(in));
  run.book(arena);
  run.queries().assign(in, *planes_, arena);
  run.forward(in, y, arena);
  if (!saved.empty()) run.keep(saved);
  report(run.queries().assign_work() + run.forward_work({}));
}

void ImprovedClusteredAttention::forward_assigned(const AttentionInputs& in,
                                                  std::span<const std::int32_t> assignment, Heads y,
                                                  std::span<float> saved, Arena& arena) const {
  const Arena::Frame frame(arena);
  Run run(config_, shape_of(in));
  run.book(arena);
  run.queries().set(assignment);
  run.forward(in, y, arena);
  if (!saved.empty()) run.keep(saved);
  report(run.forward_work({}));
}

void ImprovedClusteredAttention::run_backward(const BackwardCall& call) const {
  const AttentionInputs& in = call.in;
  const ConstHeads dy = call.dy;
  const std::span<const float> saved = call.saved;
  const AttentionGradients& grad = call.grad;
  Arena& arena = call.arena;
  Run run(config_, shape_of(in));
  run.book(arena);
  run.backward(in, dy, saved, grad, arena);
  report(run.backward_work({}));
}

}  // namespace longspan
