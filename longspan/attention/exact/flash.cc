#include "longspan/attention/exact/flash.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "longspan/base/integers.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/rows/vector.h"
#include "longspan/kernels/tiled/tiled_attention.h"

namespace longspan {

namespace {

constexpr float kSeesNothing = std::numeric_limits<float>::infinity();  // L of such a query

// How many parts the keys are cut into in backward. Enough tasks for the cores of a large machine,
// few enough that their partial dq stay a small multiple of q. Heads that share a bias cannot run
// side by side when its gradient is wanted, so then the keys alone make the tasks.
std::size_t key_chunks(const AttentionShape& s) {
  constexpr std::size_t kTasks = 16;
  constexpr std::size_t kMostChunks = 8;
  const std::size_t heads = s.bias_gradient ? 1 : s.batch * s.kv_heads;
  return std::min({divide_up(kTasks, heads), kMostChunks, divide_up(s.n, kKeyPass)});
}

// How many queries a forward task takes: as many as share the keys well, unless that leaves too few
// tasks. Queries do not meet, so the result is the same.
std::size_t queries_per_task(const AttentionShape& s) {
  std::size_t blocks = kQueryGroup;
  while (blocks > 1 && s.batch * s.heads * divide_up(s.m, blocks * kQueryBlock) < 4 * workers()) {
    blocks /= 2;
  }
  return blocks * kQueryBlock;
}

// How many parts the keys of a few queries are cut into, which are merged by their log-sum-exp: when
// decoding there may be fewer heads than cores. By the shape alone, so that bits are the same on any
// machine.
std::size_t few_chunks(const AttentionShape& s) {
  constexpr std::size_t kTasks = 16;
  constexpr std::size_t kLeastKeys = 512;
  if (s.m > kFewQueries) return 1;
  return std::max<std::size_t>(1, std::min(divide_up(kTasks, s.batch * s.heads), s.n / kLeastKeys));
}

std::uint64_t tensor_bytes(const AttentionShape& s, std::uint64_t q, std::uint64_t kv,
                           std::uint64_t y) {
  return 4 * s.batch *
         (s.heads * s.m * (q * s.d + y * s.e + 1) + kv * s.kv_heads * s.n * (s.d + s.e));
}

Work forward_work(const AttentionShape& s, const TileCounts& c) {
  Work work;
  work.maccs = c.pairs * (s.d + s.e);
  work[Kind::kMatmul] = c.queries * s.d;
  work[Kind::kSoftmax] =
      4 * c.pairs + (s.e + 3) * (c.query_tiles + c.queries) + (2 * s.e + 3) * c.partials;
  if (s.bias) work[Kind::kAdd] = 2 * c.pairs;
  if (s.dropout) work[Kind::kDropout] = c.pairs;
  work.bytes[static_cast<std::size_t>(Kind::kMatmul)] = tensor_bytes(s, 1, 1, 1);
  if (s.bias) work.bytes[static_cast<std::size_t>(Kind::kAdd)] = 4 * c.pairs;
  return work;
}

Work backward_work(const AttentionShape& s, const TileCounts& c) {
  Work work;
  work.maccs = c.pairs * (3 * s.d + 2 * s.e) + c.queries * s.e;
  work[Kind::kMatmul] = (c.query_passes + c.keys) * s.d;
  work[Kind::kSoftmax] = 4 * c.pairs;
  work[Kind::kAdd] = 2 * c.query_passes * s.d + c.partials * s.d + (s.bias ? 2 * c.pairs : 0) +
                     (s.bias_gradient ? c.pairs : 0);
  if (s.dropout) work[Kind::kDropout] = 2 * c.pairs;
  work.bytes[static_cast<std::size_t>(Kind::kMatmul)] = tensor_bytes(s, 2, 2, 2);
  if (s.bias) {
    work.bytes[static_cast<std::size_t>(Kind::kAdd)] = (s.bias_gradient ? 12 : 4) * c.pairs;
  }
  return work;
}

TiledHead tiled_head(const AttentionInputs& in, std::size_t b, std::size_t h) {
  const std::size_t kv = h / (in.q.heads / in.k.heads);
  TiledHead head;
  head.q = in.q.head(b, h);
  head.k = in.k.head(b, kv);
  head.v = in.v.head(b, kv);
  head.keys = in.mask.keys(b, in.k.n);
  head.causal = in.mask.causal;
  head.scale = 1.0F / std::sqrt(static_cast<float>(in.q.d));
  if (in.mask.bias) {
    head.bias = in.mask.bias.row(b, h, 0);
    head.bias_stride = in.mask.bias.row_stride;
  }
  if (in.mask.visible) {
    head.visible = in.mask.visible.row(b, h, 0);
    head.visible_stride = in.mask.visible.row_stride;
  }
  head.dropout = in.dropout;
  head.plane = static_cast<std::uint32_t>(b * in.q.heads + h);
  return head;
}

// y = Σ_c 2^(L_c − L)·y_c with L = log₂ Σ_c 2^(L_c), query by query; `parts` holds the [m, e] and the
// m of one after the other.
void merge_parts(std::span<const float> parts, Matrix y, float* lse) {
  const std::size_t own = y.rows * (y.cols + 1);
  const std::size_t count = parts.size() / own;
  const auto level = [&](std::size_t c, std::size_t i) {
    return parts[c * own + y.rows * y.cols + i];
  };
  for (std::size_t i = 0; i < y.rows; ++i) {
    const auto to = y.row(i);
    std::ranges::fill(to, 0.0F);
    float top = std::numeric_limits<float>::lowest();
    for (std::size_t c = 0; c < count; ++c) {
      if (level(c, i) != kSeesNothing) top = std::max(top, level(c, i));
    }
    float sum = 0.0F;
    for (std::size_t c = 0; c < count; ++c) {
      if (level(c, i) == kSeesNothing) continue;
      const float weight = std::exp2(level(c, i) - top);
      const float* from = parts.data() + c * own + i * y.cols;
      for (std::size_t j = 0; j < to.size(); ++j) to[j] += weight * from[j];
      sum += weight;
    }
    const bool nothing = sum == 0.0F;  // NaN stays NaN
    for (float& x : to) x *= nothing ? 0.0F : 1.0F / sum;
    if (lse != nullptr) lse[i] = nothing ? kSeesNothing : top + std::log2(sum);
  }
}

TileCounts total(std::span<const TileCounts> counts) {
  TileCounts sum;
  for (const TileCounts& c : counts) sum += c;
  return sum;
}

std::span<TileCounts> take_counts(Arena& arena) {
  const auto counts = arena.take<TileCounts>(workers());
  std::ranges::fill(counts, TileCounts{});
  return counts;
}

// The gradients of one (sequences, key heads, chunk) task. Sequences and heads that share a plane
// of the bias, whose gradient is a sum, belong to the same task and take their turns.
struct BackwardTask {
  std::size_t first_sequence, sequences;
  std::size_t first_kv, kv_heads;
  std::size_t chunk;
};

class FlashBackward {
 public:
  FlashBackward(const AttentionInputs& in, ConstHeads dy, const float* lse, const float* delta,
                const AttentionGradients& grad, std::size_t chunks, float* partials)
      : in_(in),
        dy_(dy),
        lse_(lse),
        delta_(delta),
        grad_(grad),
        chunks_(chunks),
        partials_(partials),
        batches_(grad.bias && grad.bias.batch_stride == 0 ? 1 : in.q.batch),
        kv_groups_(grad.bias && grad.bias.head_stride == 0 ? 1 : in.k.heads) {}

  std::size_t tasks() const { return batches_ * kv_groups_ * chunks_; }

  BackwardTask task(std::size_t t) const {
    const std::size_t sequences = in_.q.batch / batches_;
    const std::size_t kv_heads = in_.k.heads / kv_groups_;
    return {t / chunks_ / kv_groups_ * sequences, sequences, t / chunks_ % kv_groups_ * kv_heads,
            kv_heads, t % chunks_};
  }

  void run(const BackwardTask& t, float* scratch, TileCounts& counts) const {
    for (std::size_t b = t.first_sequence; b < t.first_sequence + t.sequences; ++b) {
      for (std::size_t kv = t.first_kv; kv < t.first_kv + t.kv_heads; ++kv) {
        run_keys(b, kv, t.chunk, scratch, counts);
      }
    }
  }

  // grad.q += the partial sums of row `row` of all [batch·heads·m], in order.
  void reduce(std::size_t row, TileCounts& counts) const {
    const std::size_t i = row % in_.q.n;
    const std::size_t plane = row / in_.q.n;
    const auto to = grad_.q.head(plane / in_.q.heads, plane % in_.q.heads).row(i);
    for (std::size_t chunk = 1; chunk < chunks_; ++chunk) {
      add_row(dq(plane, chunk).row(i), to.data());
      ++counts.partials;
    }
  }

 private:
  // dq of (b, h) = plane in a chunk: the first adds to the result itself.
  Matrix dq(std::size_t plane, std::size_t chunk) const {
    const std::size_t m = in_.q.n;
    const std::size_t d = in_.q.d;
    if (chunk == 0) return grad_.q.head(plane / in_.q.heads, plane % in_.q.heads);
    const std::size_t planes = in_.q.batch * in_.q.heads;
    return {partials_ + ((chunk - 1) * planes + plane) * m * d, m, d};
  }

  TiledGradient gradient(std::size_t b, std::size_t h, std::size_t chunk) const {
    const std::size_t plane = b * in_.q.heads + h;
    TiledGradient g;
    g.dy = dy_.head(b, h);
    g.lse = lse_ + plane * in_.q.n;
    g.delta = delta_ + plane * in_.q.n;
    g.dq = dq(plane, chunk);
    if (grad_.bias) {
      g.dbias = grad_.bias.row(b, h, 0);
      g.dbias_stride = grad_.bias.row_stride;
    }
    return g;
  }

  void run_keys(std::size_t b, std::size_t kv, std::size_t chunk, float* scratch,
                TileCounts& counts) const {
    const std::size_t group = in_.q.heads / in_.k.heads;
    for (std::size_t h = kv * group; h < (kv + 1) * group; ++h) {
      const Matrix to = dq(b * in_.q.heads + h, chunk);
      for (std::size_t i = 0; i < to.rows; ++i) std::ranges::fill(to.row(i), 0.0F);
    }
    // Chunks take turns at the passes, so that a causal mask loads them equally.
    for (std::size_t first = chunk * kKeyPass; first < in_.k.n; first += chunks_ * kKeyPass) {
      run_pass(b, kv, chunk, first, scratch, counts);
    }
  }

  void run_pass(std::size_t b, std::size_t kv, std::size_t chunk, std::size_t first, float* scratch,
                TileCounts& counts) const {
    const std::size_t group = in_.q.heads / in_.k.heads;
    const std::size_t last = std::min(first + kKeyPass, in_.k.n);
    const std::size_t real = std::clamp(in_.mask.keys(b, in_.k.n), first, last);
    tiled_backward_clear(real - first, in_.q.d, in_.v.d, scratch);
    for (std::size_t h = kv * group; h < (kv + 1) * group; ++h) {
      tiled_backward_add(tiled_head(in_, b, h), gradient(b, h, chunk), first, scratch, counts);
    }
    const Matrix dk = grad_.k.head(b, kv);
    const Matrix dv = grad_.v.head(b, kv);
    const float scale = 1.0F / std::sqrt(static_cast<float>(in_.q.d));
    tiled_backward_store(scale, scratch, dk.slice_rows(first, real - first),
                         dv.slice_rows(first, real - first), counts);
    for (std::size_t j = real; j < last; ++j) {
      std::ranges::fill(dk.row(j), 0.0F);
      std::ranges::fill(dv.row(j), 0.0F);
    }
  }

  const AttentionInputs& in_;
  ConstHeads dy_;
  const float* lse_;
  const float* delta_;
  const AttentionGradients& grad_;
  std::size_t chunks_;
  float* partials_;
  std::size_t batches_;    // tasks across the batch
  std::size_t kv_groups_;  // tasks across the key heads
};

}  // namespace

AttentionCost FlashAttention::cost(const AttentionShape& s) const {
  const std::size_t chunks = key_chunks(s);
  const std::uint64_t queries = s.batch * s.heads * s.m;
  TileCounts counts;
  counts.queries = queries;
  counts.pairs = s.heads * visible_pairs(s);
  counts.query_tiles = s.heads * visible_tiles(s, kKeyBlock);
  counts.query_passes = s.heads * visible_tiles(s, kKeyPass);
  counts.keys = s.kv_heads * real_keys(s);
  counts.partials = (chunks - 1) * queries;
  const std::size_t book = Arena::bytes_for<TileCounts>(workers());
  AttentionCost cost;
  cost.backward = backward_work(s, counts);
  const std::size_t parts = few_chunks(s);
  counts.queries = parts * queries;
  counts.partials = parts > 1 ? parts * queries : 0;
  cost.forward = forward_work(s, counts);
  cost.saved = queries;
  cost.forward_scratch = book + Arena::bytes_for(workers() * tiled_forward_scratch(s.d, s.e));
  if (parts > 1) cost.forward_scratch += Arena::bytes_for(parts * queries * (s.e + 1));
  cost.backward_scratch = book + Arena::bytes_for(queries) +
                          Arena::bytes_for((chunks - 1) * queries * s.d) +
                          Arena::bytes_for(workers() * tiled_backward_scratch(s.d, s.e));
  return cost;
}

// A few queries: every part of the keys gives a result of its own.
void FlashAttention::forward_few(const ForwardCall& call) const {
  const AttentionInputs& in = call.in;
  const AttentionShape s = shape_of(in);
  const std::size_t floats = tiled_forward_scratch(s.d, s.e);
  const auto counts = take_counts(call.arena);
  const auto scratch = call.arena.take(workers() * floats);
  const std::size_t planes = s.batch * s.heads;
  const std::size_t parts = few_chunks(s);
  const std::size_t keys = round_up(divide_up(s.n, parts), kKeyBlock);  // of a part
  const auto head_of = [&](std::size_t plane) {
    return call.y.head(plane / s.heads, plane % s.heads);
  };
  const auto lse_of = [&](std::size_t plane) {
    return call.saved.empty() ? nullptr : call.saved.data() + plane * s.m;
  };
  if (parts == 1) {
    parallel_for(planes, [&](std::size_t plane, std::size_t worker) {
      tiled_forward_few(tiled_head(in, plane / s.heads, plane % s.heads), 0, head_of(plane),
                        lse_of(plane), scratch.data() + worker * floats, counts[worker]);
    });
    return report(forward_work(s, total(counts)));
  }
  const std::size_t own = s.m * (s.e + 1);  // floats: y, then L
  const auto partial = call.arena.take(planes * parts * own);
  parallel_for(planes * parts, [&](std::size_t task, std::size_t worker) {
    const std::size_t plane = task / parts;
    const std::size_t first = task % parts * keys;
    TiledHead head = tiled_head(in, plane / s.heads, plane % s.heads);
    head.keys = std::min(head.keys, first + keys);
    float* to = partial.data() + task * own;
    tiled_forward_few(head, first, Matrix(to, s.m, s.e), to + s.m * s.e,
                      scratch.data() + worker * floats, counts[worker]);
  });
  for (std::size_t plane = 0; plane < planes; ++plane) {
    merge_parts({partial.data() + plane * parts * own, parts * own}, head_of(plane), lse_of(plane));
    counts[0].partials += parts * s.m;
  }
  report(forward_work(s, total(counts)));
}

void FlashAttention::run_forward(const ForwardCall& call) const {
  if (call.in.q.n <= kFewQueries) return forward_few(call);
  const AttentionInputs& in = call.in;
  const Heads y = call.y;
  const std::span<float> saved = call.saved;
  Arena& arena = call.arena;
  const AttentionShape s = shape_of(in);
  const std::size_t floats = tiled_forward_scratch(s.d, s.e);
  const auto counts = take_counts(arena);
  const auto scratch = arena.take(workers() * floats);
  const std::size_t group = queries_per_task(s);
  const std::size_t groups = divide_up(s.m, group);
  const std::size_t planes = s.batch * s.heads;
  parallel_for(groups * planes, [&](std::size_t task, std::size_t worker) {
    // The last queries of a head see the most keys, so they start first.
    const std::size_t first = (groups - 1 - task % groups) * group;
    const std::size_t plane = task / groups;
    const std::size_t b = plane / s.heads;
    const std::size_t h = plane % s.heads;
    float* lse = saved.empty() ? nullptr : saved.data() + plane * s.m;
    tiled_forward(tiled_head(in, b, h), first, std::min(group, s.m - first), y.head(b, h), lse,
                  scratch.data() + worker * floats, counts[worker]);
  });
  report(forward_work(s, total(counts)));
}

void FlashAttention::run_backward(const BackwardCall& call) const {
  const AttentionInputs& in = call.in;
  const ConstHeads y = call.y;
  const ConstHeads dy = call.dy;
  const std::span<const float> saved = call.saved;
  const AttentionGradients& grad = call.grad;
  Arena& arena = call.arena;
  const AttentionShape s = shape_of(in);
  const auto counts = take_counts(arena);
  const auto delta = arena.take(s.batch * s.heads * s.m);
  parallel_for(s.batch * s.heads, [&](std::size_t plane, std::size_t worker) {
    const std::size_t b = plane / s.heads;
    const std::size_t h = plane % s.heads;
    tiled_delta(y.head(b, h), dy.head(b, h), delta.data() + plane * s.m);
    counts[worker].queries += s.m;
  });
  spread_backward(in, dy, saved, delta, grad, counts, arena);
}

void FlashAttention::backward_with_delta(const AttentionInputs& in, ConstHeads dy,
                                         std::span<const float> saved, std::span<const float> delta,
                                         const AttentionGradients& grad, Arena& arena) const {
  const Arena::Frame frame(arena);
  spread_backward(in, dy, saved, delta, grad, take_counts(arena), arena);
}

void FlashAttention::spread_backward(const AttentionInputs& in, ConstHeads dy,
                                     std::span<const float> saved, std::span<const float> delta,
                                     const AttentionGradients& grad, std::span<TileCounts> counts,
                                     Arena& arena) const {
  AttentionShape s = shape_of(in);
  s.bias_gradient = static_cast<bool>(grad.bias);
  const std::size_t chunks = key_chunks(s);
  const std::size_t rows = s.batch * s.heads * s.m;
  const std::size_t floats = tiled_backward_scratch(s.d, s.e);
  const auto partials = arena.take((chunks - 1) * rows * s.d);
  const auto scratch = arena.take(workers() * floats);

  const FlashBackward backward(in, dy, saved.data(), delta.data(), grad, chunks, partials.data());
  parallel_for(backward.tasks(), [&](std::size_t task, std::size_t worker) {
    backward.run(backward.task(task), scratch.data() + worker * floats, counts[worker]);
  });
  if (chunks > 1) {
    constexpr std::size_t kRows = 256;
    parallel_for(divide_up(rows, kRows), [&](std::size_t piece, std::size_t worker) {
      const std::size_t last = std::min(rows, (piece + 1) * kRows);
      for (std::size_t i = piece * kRows; i < last; ++i) backward.reduce(i, counts[worker]);
    });
  }
  report(backward_work(s, total(counts)));
}

AttentionCost FlashAttention::cost_with_delta(const AttentionShape& s) const {
  const std::size_t queries = s.batch * s.heads * s.m;
  AttentionCost with = cost(s);
  with.backward.maccs -= queries * s.e;
  with.backward_scratch -= Arena::bytes_for(queries);
  return with;
}

}  // namespace longspan
