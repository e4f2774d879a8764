#include "longspan/attention/cluster/clustered_queries.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "longspan/base/error.h"
#include "longspan/base/integers.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/hash/cluster.h"
#include "longspan/kernels/hash/hash.h"
#include "longspan/kernels/hash/sort.h"
#include "longspan/kernels/rows/gather.h"

namespace longspan {

namespace {

constexpr std::size_t kTaskQueries = 512;  // queries of a task
constexpr std::size_t kTaskClusters = 16;  // clusters of a task

}  // namespace

ClusteredQueries::ClusteredQueries(const ClusteringConfig& config, const AttentionShape& shape)
    : config_(config), s_(shape), clusters_(std::min(config.clusters, shape.m)) {}

const Parameter& ClusteredQueries::declare(const ClusteringConfig& config,
                                           const AttentionSite& site) {
  const RandomKey key = derive(derive(config.seed, "clustered"), site.name);
  return site.parameters.declare_constant(site.name + ".planes", config.bits, site.d_head + 1,
                                          [key](Matrix to) {
                                            for (std::size_t i = 0; i < to.size(); ++i)
                                              to.data[i] = random_normal(key, i);
                                          });
}

std::size_t ClusteredQueries::real(std::size_t b) const {
  if (s_.m != s_.n || s_.key_lengths.empty()) return s_.m;
  return static_cast<std::size_t>(s_.key_lengths[b]);
}

std::uint64_t ClusteredQueries::real_queries() const {
  std::uint64_t total = 0;
  for (std::size_t b = 0; b < s_.batch; ++b) total += s_.heads * real(b);
  return total;
}

std::size_t ClusteredQueries::bytes() const {
  return 2 * Arena::bytes_for<std::int32_t>(planes() * s_.m) +
         Arena::bytes_for<std::int32_t>(planes() * (clusters_ + 2));
}

void ClusteredQueries::book(Arena& arena) {
  assignment_ = arena.take<std::int32_t>(planes() * s_.m);
  order_ = arena.take<std::int32_t>(planes() * s_.m);
  first_ = arena.take<std::int32_t>(planes() * (clusters_ + 2));
}

std::size_t ClusteredQueries::assign_bytes() const {
  return Arena::bytes_for<std::uint64_t>(planes() * s_.m) +
         Arena::bytes_for<std::uint64_t>(planes() * clusters_) +
         Arena::bytes_for<std::int32_t>(workers() * majority_scratch(clusters_)) +
         Arena::bytes_for<float>(workers() * sign_scratch(s_.d, config_.bits));
}

// Rows [first, first + count) of a plane: the part of a task.
struct ClusteredQueries::Piece {
  std::size_t plane, b, h, first, count;
  Piece(const AttentionShape& s, std::size_t task)
      : plane(task / divide_up(s.m, kTaskQueries)),
        b(plane / s.heads),
        h(plane % s.heads),
        first(task % divide_up(s.m, kTaskQueries) * kTaskQueries),
        count(std::min(kTaskQueries, s.m - first)) {}
};

void ClusteredQueries::assign(const AttentionInputs& in, const Parameter& planes_of, Arena& arena) {
  const Arena::Frame frame(arena);
  const auto codes = arena.take<std::uint64_t>(planes() * s_.m);
  const auto centres = arena.take<std::uint64_t>(planes() * clusters_);
  const auto counts = arena.take<std::int32_t>(workers() * majority_scratch(clusters_));
  const std::size_t floats = sign_scratch(s_.d, config_.bits);
  const auto scratch = arena.take<float>(workers() * floats);
  const std::size_t tasks = planes() * divide_up(s_.m, kTaskQueries);
  auto codes_of = [&](std::size_t plane) { return codes.subspan(plane * s_.m, s_.m); };
  auto centres_of = [&](std::size_t plane) {
    const std::size_t used = std::min(clusters_, real(plane / s_.heads));
    return centres.subspan(plane * clusters_, used);
  };
  // The codes [from, to) of a piece go to the nearest centre.
  auto nearest = [&](const Piece& p, std::size_t from, std::size_t to) {
    const std::size_t begin = std::clamp(from, p.first, p.first + p.count);
    const std::size_t end = std::clamp(to, begin, p.first + p.count);
    nearest_codes(codes_of(p.plane).subspan(begin, end - begin), centres_of(p.plane),
                  assignment_.data() + p.plane * s_.m + begin);
  };

  parallel_for(tasks, [&](std::size_t task, std::size_t worker) {
    const Piece p(s_, task);
    sign_bits(in.q.head(p.b, p.h).slice_rows(p.first, p.count), planes_of.matrix(),
              codes_of(p.plane).data() + p.first, scratch.data() + worker * floats);
  });
  parallel_for(planes(), [&](std::size_t plane, std::size_t) {
    const std::size_t count = real(plane / s_.heads);
    if (count > 0) spaced_codes(codes_of(plane).first(count), centres_of(plane));
    std::int32_t* to = assignment_.data() + plane * s_.m;
    std::iota(to, to + std::min(count, clusters_), 0);
  });
  auto move_centres = [&](std::size_t plane, std::size_t worker) {
    const std::size_t count = real(plane / s_.heads);
    if (count <= clusters_) return;
    majority_codes(codes_of(plane).first(count), assignment_.data() + plane * s_.m,
                   centres_of(plane), counts.data() + worker * majority_scratch(clusters_));
  };
  auto find_nearest = [&](std::size_t task) {
    const Piece p(s_, task);
    if (real(p.b) > clusters_) nearest(p, 0, real(p.b));
  };
  if (tasks == planes()) {  // short sequences: no thread waits for another
    parallel_for(planes(), [&](std::size_t plane, std::size_t worker) {
      for (std::size_t l = 0; l < config_.iterations; ++l) {
        find_nearest(plane);
        move_centres(plane, worker);
      }
    });
  } else {
    for (std::size_t l = 0; l < config_.iterations; ++l) {
      parallel_for(tasks, [&](std::size_t task, std::size_t) { find_nearest(task); });
      parallel_for(planes(), move_centres);
    }
  }
  parallel_for(tasks, [&](std::size_t task, std::size_t) {
    const Piece p(s_, task);
    if (real(p.b) > 0) return nearest(p, real(p.b), s_.m);
    std::fill_n(assignment_.data() + p.plane * s_.m + p.first, p.count, 0);
  });
  sort();
}

void ClusteredQueries::set(std::span<const std::int32_t> assignment) {
  require(assignment.size() == assignment_.size(), "[clustered] {} queries have a cluster; need {}",
          assignment.size(), assignment_.size());
  for (std::size_t i = 0; i < assignment.size(); ++i) {
    require(assignment[i] >= -1 && assignment[i] < static_cast<std::int32_t>(clusters_),
            "[clustered] a query is in cluster {}; need −1 to {}", assignment[i], clusters_ - 1);
    assignment_[i] = assignment[i] < 0 ? static_cast<std::int32_t>(clusters_) : assignment[i];
  }
  sort();
}

void ClusteredQueries::keep(std::span<float> saved) const {
  std::memcpy(saved.data(), assignment_.data(), assignment_.size_bytes());
}

void ClusteredQueries::restore(std::span<const float> saved) {
  std::memcpy(assignment_.data(), saved.data(), assignment_.size_bytes());
  sort();
}

void ClusteredQueries::sort() {
  parallel_for(planes(), [&](std::size_t plane, std::size_t) {
    sort_by_group(assignment_.subspan(plane * s_.m, s_.m),
                  first_.subspan(plane * (clusters_ + 2), clusters_ + 2),
                  order_.data() + plane * s_.m);
  });
}

std::span<const std::int32_t> ClusteredQueries::members(std::size_t plane, std::size_t j) const {
  const std::int32_t* first = first_.data() + plane * (clusters_ + 2) + j;
  return {order_.data() + plane * s_.m + first[0], static_cast<std::size_t>(first[1] - first[0])};
}

std::size_t ClusteredQueries::counted(std::size_t plane, std::size_t j) const {
  const auto who = members(plane, j);
  const auto end = static_cast<std::int32_t>(real(plane / s_.heads));
  return static_cast<std::size_t>(std::ranges::lower_bound(who, end) - who.begin());
}

// Calls body(plane, j) for every cluster j < count of every plane.
template <class Body>
void ClusteredQueries::for_each_cluster(std::size_t count, Body body) const {
  const std::size_t groups = divide_up(count, kTaskClusters);
  parallel_for(planes() * groups, [&](std::size_t task, std::size_t) {
    const std::size_t first = task % groups * kTaskClusters;
    for (std::size_t j = first; j < std::min(first + kTaskClusters, count); ++j) {
      body(task / groups, j);
    }
  });
}

void ClusteredQueries::means(const AttentionInputs& in, Heads to) const {
  for_each_cluster(clusters_, [&](std::size_t plane, std::size_t j) {
    const std::size_t b = plane / s_.heads;
    const std::size_t h = plane % s_.heads;
    const auto who = members(plane, j).first(counted(plane, j));
    const float share = 1.0F / static_cast<float>(std::max<std::size_t>(who.size(), 1));
    sum_rows(in.q.head(b, h), who, share, to.head(b, h).row(j));
  });
}

void ClusteredQueries::sums(ConstHeads x, Heads to) const {
  for_each_cluster(clusters_, [&](std::size_t plane, std::size_t j) {
    const std::size_t b = plane / s_.heads;
    const std::size_t h = plane % s_.heads;
    sum_rows(x.head(b, h), members(plane, j), 1.0F, to.head(b, h).row(j));
  });
}

void ClusteredQueries::spread_means(ConstHeads dc, bool add, Heads dq) const {
  for_each_cluster(clusters_ + 1, [&](std::size_t plane, std::size_t j) {
    const std::size_t b = plane / s_.heads;
    const std::size_t h = plane % s_.heads;
    const auto who = members(plane, j);
    const std::size_t count = j == clusters_ ? 0 : counted(plane, j);
    if (count > 0) {
      spread_row(dc.head(b, h).row(j), 1.0F / static_cast<float>(count), add, who.first(count),
                 dq.head(b, h));
    }
    if (add) return;
    for (const std::int32_t i : who.subspan(count)) {
      std::ranges::fill(dq.head(b, h).row(static_cast<std::size_t>(i)), 0.0F);
    }
  });
}

void ClusteredQueries::broadcast(ConstHeads rows, Heads y) const {
  parallel_for(planes() * divide_up(s_.m, kTaskQueries), [&](std::size_t task, std::size_t) {
    const Piece p(s_, task);
    for (std::size_t i = p.first; i < p.first + p.count; ++i) {
      const auto j = static_cast<std::size_t>(assignment_[p.plane * s_.m + i]);
      const std::span<float> to = y.head(p.b, p.h).row(i);
      if (j == clusters_) {
        std::ranges::fill(to, 0.0F);
      } else {
        std::ranges::copy(rows.head(p.b, p.h).row(j), to.begin());
      }
    }
  });
}

Work ClusteredQueries::assign_work() const {
  Work work;
  const std::uint64_t queries = planes() * s_.m;
  work.maccs = queries * config_.bits * (s_.d + 1);
  std::uint64_t hash = queries * config_.bits;
  for (std::size_t b = 0; b < s_.batch; ++b) {
    const std::uint64_t count = real(b);
    const std::uint64_t lloyd =
        count > clusters_ ? config_.iterations * count * (3 * clusters_ + config_.bits) : 0;
    hash += s_.heads * (lloyd + 3 * (s_.m - count) * std::min<std::uint64_t>(clusters_, count));
  }
  work[Kind::kHash] = hash;
  work[Kind::kSort] = 2 * queries;
  work.bytes[static_cast<std::size_t>(Kind::kHash)] = 4 * queries * s_.d;
  return work;
}

Work ClusteredQueries::mean_work() const {
  Work work;
  work[Kind::kAdd] = real_queries() * s_.d + planes() * clusters_ * s_.d;
  work.bytes[static_cast<std::size_t>(Kind::kGather)] =
      4 * (planes() * s_.m + planes() * clusters_) * s_.d;
  return work;
}

Work ClusteredQueries::spread_work() const {
  Work work;
  work[Kind::kSort] = 2 * planes() * s_.m;
  work[Kind::kAdd] = planes() * s_.m * s_.e + real_queries() * 2 * s_.d;
  work.bytes[static_cast<std::size_t>(Kind::kGather)] = 4 * planes() * s_.m * (s_.d + s_.e);
  return work;
}

}  // namespace longspan
