#include "longspan/attention/reformer_local.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "longspan/base/error.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/tiled_attention.h"

namespace longspan {

namespace {

std::size_t workers() { return static_cast<std::size_t>(thread_count()); }

Work forward_work(const AttentionShape& s, const ChunkCounts& c) {
  Work work;
  work.maccs = c.pairs * (s.d + s.e);
  work[Kind::kSoftmax] = 5 * c.pairs + c.queries * (2 * s.e + 8);
  work.bytes[static_cast<std::size_t>(Kind::kMatmul)] = 4 * c.queries * 2 * (s.d + s.e);
  work.bytes[static_cast<std::size_t>(Kind::kGather)] = 4 * c.gathered * (s.d + s.e);
  return work;
}

Work backward_work(const AttentionShape& s, const ChunkCounts& c) {
  Work work;
  work.maccs = c.pairs * (3 * s.d + 2 * s.e) + c.queries * s.e;
  work[Kind::kSoftmax] = 6 * c.pairs;
  work[Kind::kAdd] = c.queries * s.d + c.gathered * (s.d + s.e);
  work.bytes[static_cast<std::size_t>(Kind::kMatmul)] = 8 * c.queries * 2 * (s.d + s.e);
  work.bytes[static_cast<std::size_t>(Kind::kGather)] = 8 * c.gathered * (s.d + s.e);
  return work;
}

ChunkCounts total(std::span<const ChunkCounts> counts) {
  ChunkCounts sum;
  for (const ChunkCounts& c : counts) sum += c;
  return sum;
}

}  // namespace

// What all heads share, and the scratch of the workers.
struct ReformerLocalAttention::Tables {
  std::span<ChunkCounts> counts;
  std::span<std::int32_t> order;
  std::span<float> factor;
  std::span<float> floats;
  std::span<std::int32_t> integers;
  ChunkScratch scratch;

  Tables(const AttentionShape& s, const ChunkScratch& scratch_, Arena& arena)
      : counts(arena.take<ChunkCounts>(workers())),
        order(arena.take<std::int32_t>(s.n)),
        factor(arena.take<float>(s.n)),
        floats(arena.take<float>(workers() * scratch_.floats)),
        integers(arena.take<std::int32_t>(workers() * scratch_.integers)),
        scratch(scratch_) {
    std::ranges::fill(counts, ChunkCounts{});
    std::iota(order.begin(), order.end(), 0);
    std::ranges::fill(factor, 1.0F / std::sqrt(static_cast<float>(s.d)));
  }
  static std::size_t bytes(const AttentionShape& s, const ChunkScratch& scratch) {
    return Arena::bytes_for<ChunkCounts>(workers()) + 2 * Arena::bytes_for(s.n) +
           Arena::bytes_for(workers() * scratch.floats) +
           Arena::bytes_for(workers() * scratch.integers);
  }
};

ReformerLocalAttention::ReformerLocalAttention(const ReformerLocalConfig& config)
    : config_(config) {
  require(config.chunk > 0, "[reformer-local] chunks of {} tokens; need at least 1", config.chunk);
}

ChunkLayout ReformerLocalAttention::layout(const AttentionShape& s) const {
  ChunkLayout l;
  l.tokens = s.n;
  l.chunk = config_.chunk;
  l.before = config_.before;
  l.after = config_.after;
  l.wrap = config_.circular ? Wrap::kRound : Wrap::kNone;
  return l;
}

ChunkedHead ReformerLocalAttention::chunked(const AttentionInputs& in, const Tables& tables,
                                            std::size_t plane) const {
  const std::size_t b = plane / in.q.heads;
  const std::size_t h = plane % in.q.heads;
  ChunkedHead head;
  head.q = in.q.head(b, h);
  head.k = in.k.head(b, h);
  head.v = in.v.head(b, h);
  head.factor = tables.factor.data();
  head.order = tables.order.data();
  head.layout = layout(shape_of(in));
  head.real = in.mask.keys(b, in.k.n);
  head.causal = in.mask.causal;
  head.sees_self = true;
  return head;
}

AttentionCost ReformerLocalAttention::cost(const AttentionShape& s) const {
  const ChunkLayout l = layout(s);
  const std::size_t planes = s.batch * s.heads;
  ChunkCounts counts;
  counts.queries = planes * s.n;
  counts.pairs = planes * l.pairs();
  counts.gathered = planes * l.gathered();
  AttentionCost cost;
  cost.forward = forward_work(s, counts);
  cost.backward = backward_work(s, counts);
  cost.saved = planes * s.n;
  cost.forward_scratch =
      Tables::bytes(s, chunk_forward_scratch(l, s.d, s.e)) + 2 * Arena::bytes_for(planes * s.n);
  cost.backward_scratch =
      Tables::bytes(s, chunk_backward_scratch(l, s.d, s.e)) + Arena::bytes_for(planes * s.n);
  return cost;
}

void ReformerLocalAttention::run_forward(const AttentionInputs& in, Heads y, std::span<float> saved,
                                         Arena& arena) const {
  const AttentionShape s = shape_of(in);
  const ChunkLayout l = layout(s);
  const std::size_t planes = s.batch * s.heads;
  const Tables tables(s, chunk_forward_scratch(l, s.d, s.e), arena);
  const auto level = arena.take(planes * s.n);
  const auto sum = arena.take(planes * s.n);
  parallel_for(planes * l.groups(), [&](std::size_t task, std::size_t worker) {
    const std::size_t plane = task / l.groups();
    const ChunkState state{y.head(plane / s.heads, plane % s.heads), level.data() + plane * s.n,
                           sum.data() + plane * s.n};
    chunk_forward(chunked(in, tables, plane), 0, task % l.groups(), state,
                  tables.floats.data() + worker * tables.scratch.floats,
                  tables.integers.data() + worker * tables.scratch.integers, tables.counts[worker]);
  });
  if (!saved.empty()) std::ranges::copy(level, saved.begin());
  Meter::report(forward_work(s, total(tables.counts)));
}

void ReformerLocalAttention::run_backward(const AttentionInputs& in, ConstHeads y, ConstHeads dy,
                                          std::span<const float> saved,
                                          const AttentionGradients& grad,
                                          std::span<float> /*signals*/, Arena& arena) const {
  const AttentionShape s = shape_of(in);
  const ChunkLayout l = layout(s);
  const std::size_t planes = s.batch * s.heads;
  const Tables tables(s, chunk_backward_scratch(l, s.d, s.e), arena);
  const auto delta = arena.take(planes * s.n);
  auto gradient = [&](std::size_t plane) {
    const std::size_t b = plane / s.heads;
    const std::size_t h = plane % s.heads;
    ChunkGradient g;
    g.dy = dy.head(b, h);
    g.lse = saved.data() + plane * s.n;
    g.delta = delta.data() + plane * s.n;
    g.dq = grad.q.head(b, h);
    g.dk = grad.k.head(b, h);
    g.dv = grad.v.head(b, h);
    return g;
  };
  parallel_for(planes, [&](std::size_t plane, std::size_t) {
    const ChunkGradient g = gradient(plane);
    tiled_delta(y.head(plane / s.heads, plane % s.heads), g.dy, delta.data() + plane * s.n);
    for (const Matrix& rows : {g.dq, g.dk, g.dv}) {
      for (std::size_t i = 0; i < s.n; ++i) std::ranges::fill(rows.row(i), 0.0F);
    }
  });
  for (std::size_t phase = 0; phase < l.phases(); ++phase) {
    parallel_for(planes * l.groups(), [&](std::size_t task, std::size_t worker) {
      const std::size_t plane = task / l.groups();
      const std::size_t group = task % l.groups();
      if (l.phase(group) != phase) return;
      chunk_backward(chunked(in, tables, plane), gradient(plane), 0, group,
                     tables.floats.data() + worker * tables.scratch.floats,
                     tables.integers.data() + worker * tables.scratch.integers,
                     tables.counts[worker]);
    });
  }
  Meter::report(backward_work(s, total(tables.counts)));
}

}  // namespace longspan
