#include "longspan/attention/exact/flash.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

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
std::size_t few_chunks_of(const AttentionShape& s) {
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

}  // namespace

// The gradients of one (sequences, key heads, chunk) task. Sequences and heads that share a plane
// of the bias, whose gradient is a sum, belong to the same task and take their turns.
struct BackwardTask {
  std::size_t first_sequence, sequences;
  std::size_t first_kv, kv_heads;
  std::size_t chunk;
};

class FlashBackward {
 public:
  // What it reads beside its inputs, and where it leaves what is summed afterwards.
  struct Memory {
    const float* lse;
    const float* delta;
    std::span<const float> distances;
    float* partials;                // of dq, chunk by chunk but the first
    std::span<float> of_distances;  // of d, chunk by chunk; empty: not wanted
  };
  FlashBackward(const FlashAttention& flash, const AttentionInputs& in, ConstHeads dy,
                const AttentionGradients& grad, std::size_t chunks, const Memory& memory)
      : flash_(flash),
        in_(in),
        dy_(dy),
        grad_(grad),
        chunks_(chunks),
        memory_(memory),
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

  // The gradient of B from those of d, in order.
  void gather(const Buckets& buckets, std::span<float> to, TileCounts& counts) const {
    std::ranges::fill(to, 0.0F);
    const std::size_t heads = in_.q.heads;
    for (std::size_t plane = 0; plane < in_.q.batch * heads; ++plane) {
      for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
        gather_buckets(buckets, distances(plane, chunk), in_.q.n, in_.k.n, plane % heads, heads,
                       to);
        counts.relative_partials += in_.q.n + in_.k.n - 1;
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
    return {memory_.partials + ((chunk - 1) * planes + plane) * m * d, m, d};
  }

  // The gradient of d that one chunk of the keys of one head gives.
  std::span<float> distances(std::size_t plane, std::size_t chunk) const {
    const std::size_t each = distance_floats(in_.q.n, in_.k.n);
    return memory_.of_distances.subspan((plane * chunks_ + chunk) * each, each);
  }

  TiledGradient gradient(std::size_t b, std::size_t h, std::size_t chunk) const {
    const std::size_t plane = b * in_.q.heads + h;
    TiledGradient g;
    g.dy = dy_.head(b, h);
    g.lse = memory_.lse + plane * in_.q.n;
    g.delta = memory_.delta + plane * in_.q.n;
    g.dq = dq(plane, chunk);
    if (!memory_.of_distances.empty()) g.ddistances = distances(plane, chunk).data() + in_.q.n - 1;
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
      if (!memory_.of_distances.empty()) {
        std::ranges::fill(distances(b * in_.q.heads + h, chunk), 0.0F);
      }
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
      tiled_backward_add(flash_.head(in_, b, h, memory_.distances), gradient(b, h, chunk), first,
                         scratch, counts);
    }
    const Matrix dk = grad_.k.head(b, kv);
    const Matrix dv = grad_.v.head(b, kv);
    tiled_backward_store(flash_.scale(in_.q.d), scratch, dk.slice_rows(first, real - first),
                         dv.slice_rows(first, real - first), counts);
    for (std::size_t j = real; j < last; ++j) {
      std::ranges::fill(dk.row(j), 0.0F);
      std::ranges::fill(dv.row(j), 0.0F);
    }
  }

  const FlashAttention& flash_;
  const AttentionInputs& in_;
  ConstHeads dy_;
  const AttentionGradients& grad_;
  std::size_t chunks_;
  Memory memory_;
  std::size_t batches_;    // tasks across the batch
  std::size_t kv_groups_;  // tasks across the key heads
};

FlashAttention::FlashAttention(const FlashConfig& config)
    : Attention(can(config)), config_(config) {
  require(!config.sinks && config.distances != DistanceKind::kBuckets,
          "[flash] sinks or buckets without a layer to learn them; need a site");
}

FlashAttention::FlashAttention(const FlashConfig& config, const AttentionSite& site)
    : Attention(can(config)), config_(config) {
  if (config.sinks) {
    sinks_ = &site.parameters.declare(site.name + ".sinks", site.heads,
                                      Initializer::normal(site.deviation));
  }
  if (config.distances != DistanceKind::kBuckets) return;
  const std::string name = site.stack + ".distances";
  table_ = site.parameters.find(name);
  if (table_ == nullptr) {
    table_ = &site.parameters.declare(name, config.buckets, site.heads,
                                      Initializer::normal(site.deviation));
    table_->place.block.reset();  // of the whole stack
  }
  require(table_->rows == config.buckets && table_->cols == site.heads,
          "[flash] the table {} has {} buckets for {} heads; the layers of a stack share it, and "
          "this one has {} for {}",
          name, table_->rows, table_->cols, config.buckets, site.heads);
}

Abilities FlashAttention::can(const FlashConfig& config) {
  check_numbers(kName, config);
  require(config.distances != DistanceKind::kBuckets ||
              config.span > (config.two_sided ? config.buckets / 4 : config.buckets / 2),
          "[flash] {} buckets over a span of {}; need a span beyond the buckets of one distance",
          config.buckets, config.span);
  Abilities able = Abilities::all();
  FlashConfig plain;
  plain.key_bias = config.key_bias;
  able.exact = config == plain;
  able.cross = !config.places();
  return able;
}

Reach FlashAttention::reach() const {
  const auto bound = [](std::size_t x) { return x == FlashConfig::kAll ? Reach::kAll : x; };
  return {bound(config_.before), bound(config_.after)};
}

float FlashAttention::scale(std::size_t d) const {
  return config_.scale > 0.0 ? static_cast<float>(config_.scale)
                             : 1.0F / std::sqrt(static_cast<float>(d));
}

// A window is read by one task: it holds few keys.
std::size_t FlashAttention::few_chunks(const AttentionShape& s) const {
  return config_.bounded() ? 1 : few_chunks_of(s);
}

std::size_t FlashAttention::distance_size(const AttentionShape& s) const {
  return config_.distances == DistanceKind::kNone ? 0 : s.heads * distance_floats(s.m, s.n);
}

std::span<const float> FlashAttention::take_distances(const AttentionShape& s, TileCounts& counts,
                                                      Arena& arena) const {
  const auto d = arena.take(distance_size(s));
  if (d.empty()) return {};
  if (config_.distances == DistanceKind::kAlibi) fill_alibi(config_.slope, s.heads, s.m, s.n, d);
  if (learns_buckets()) fill_buckets(buckets(), table_->value, s.heads, s.m, s.n, d);
  counts.table += s.heads * (s.m + s.n - 1);
  return d;
}

TiledHead FlashAttention::head(const AttentionInputs& in, std::size_t b, std::size_t h,
                               std::span<const float> distances) const {
  const std::size_t kv = h / (in.q.heads / in.k.heads);
  TiledHead head;
  head.q = in.q.head(b, h);
  head.k = in.k.head(b, kv);
  head.v = in.v.head(b, kv);
  head.keys = in.mask.keys(b, in.k.n);
  head.causal = in.mask.causal;
  head.before = reach().before;
  head.after = reach().after;
  head.scale = scale(in.q.d);
  head.cap = static_cast<float>(config_.cap);
  if (sinks_ != nullptr) head.sink = std::numbers::log2e_v<float> * sinks_->value[h];
  if (!distances.empty()) {
    head.distances = distances.data() + h * distance_floats(in.q.n, in.k.n) + in.q.n - 1;
  }
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

Work FlashAttention::forward_work(const AttentionShape& s, const TileCounts& c) const {
  Work work;
  work.maccs = c.pairs * (s.d + s.e);
  work[Kind::kMatmul] = c.queries * s.d;
  work[Kind::kSoftmax] = (config_.cap > 0.0 ? 7 : 4) * c.pairs +
                         (s.e + 3) * (c.query_tiles + c.queries) + (2 * s.e + 3) * c.partials;
  work[Kind::kAdd] = (s.bias ? 2 * c.pairs : 0) + c.table;
  if (config_.distances != DistanceKind::kNone) work[Kind::kAdd] += c.pairs;
  if (s.dropout) work[Kind::kDropout] = c.pairs;
  work.bytes[static_cast<std::size_t>(Kind::kMatmul)] = tensor_bytes(s, 1, 1, 1);
  work.bytes[static_cast<std::size_t>(Kind::kAdd)] = 4 * ((s.bias ? c.pairs : 0) + c.table);
  return work;
}

Work FlashAttention::backward_work(const AttentionShape& s, const TileCounts& c) const {
  Work work;
  work.maccs = c.pairs * (3 * s.d + 2 * s.e) + c.queries * s.e;
  work[Kind::kMatmul] = (c.query_passes + c.keys) * s.d;
  work[Kind::kSoftmax] =
      (config_.cap > 0.0 ? 11 : 4) * c.pairs + (sinks_ != nullptr ? 4 * c.queries : 0);
  work[Kind::kAdd] = 2 * c.query_passes * s.d + c.partials * s.d + (s.bias ? 2 * c.pairs : 0) +
                     (s.bias_gradient ? c.pairs : 0) + c.table + c.relative_partials;
  if (config_.distances != DistanceKind::kNone) work[Kind::kAdd] += c.pairs;
  if (learns_buckets()) work[Kind::kAdd] += c.pairs;
  if (s.dropout) work[Kind::kDropout] = 2 * c.pairs;
  work.bytes[static_cast<std::size_t>(Kind::kMatmul)] = tensor_bytes(s, 2, 2, 2);
  work.bytes[static_cast<std::size_t>(Kind::kAdd)] =
      4 * (c.table + c.relative_partials) + (s.bias ? (s.bias_gradient ? 12 : 4) * c.pairs : 0);
  return work;
}

// What runs in backward; forward differs where a few queries are cut.
TileCounts FlashAttention::counts_of(const AttentionShape& s) const {
  const std::size_t chunks = key_chunks(s);
  TileCounts counts;
  counts.queries = s.batch * s.heads * s.m;
  counts.pairs = s.heads * visible_tiles(s, 1, reach());
  counts.query_tiles = s.heads * visible_tiles(s, kKeyBlock, reach());
  counts.query_passes = s.heads * visible_tiles(s, kKeyPass, reach());
  counts.keys = s.kv_heads * real_keys(s);
  counts.partials = (chunks - 1) * counts.queries;
  const std::size_t distances = s.heads * (s.m + s.n - 1);
  if (config_.distances != DistanceKind::kNone) counts.table = distances;
  if (learns_buckets()) counts.relative_partials = s.batch * chunks * distances;
  return counts;
}

AttentionCost FlashAttention::cost(const AttentionShape& s) const {
  const std::size_t chunks = key_chunks(s);
  TileCounts counts = counts_of(s);
  const std::size_t queries = counts.queries;
  const std::size_t book =
      Arena::bytes_for<TileCounts>(workers()) + Arena::bytes_for(distance_size(s));
  AttentionCost cost;
  cost.backward = backward_work(s, counts);
  const std::size_t parts = few_chunks(s);
  counts.queries = parts * queries;
  counts.partials = parts > 1 ? parts * queries : 0;
  cost.forward = forward_work(s, counts);
  cost.saved = queries;
  cost.signals = (sinks_ != nullptr ? s.heads : 0) + (learns_buckets() ? table_->size() : 0);
  cost.update = flops(Kind::kAdd, cost.signals, 12 * cost.signals);
  cost.forward_scratch = book + Arena::bytes_for(workers() * tiled_forward_scratch(s.d, s.e));
  if (parts > 1) cost.forward_scratch += Arena::bytes_for(parts * queries * (s.e + 1));
  cost.backward_scratch = book + Arena::bytes_for(queries) +
                          Arena::bytes_for((chunks - 1) * queries * s.d) +
                          Arena::bytes_for(workers() * tiled_backward_scratch(s.d, s.e));
  if (learns_buckets()) {
    cost.backward_scratch += Arena::bytes_for(s.batch * chunks * distance_size(s));
  }
  return cost;
}

// A few queries: every part of the keys gives a result of its own.
void FlashAttention::forward_few(const ForwardCall& call) const {
  const AttentionInputs& in = call.in;
  const AttentionShape s = shape_of(in);
  const std::size_t floats = tiled_forward_scratch(s.d, s.e);
  const auto counts = take_counts(call.arena);
  const auto distances = take_distances(s, counts[0], call.arena);
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
      tiled_forward_few(head(in, plane / s.heads, plane % s.heads, distances), 0, head_of(plane),
                        lse_of(plane), scratch.data() + worker * floats, counts[worker]);
    });
    return report(forward_work(s, total(counts)));
  }
  const std::size_t own = s.m * (s.e + 1);  // floats: y, then L
  const auto partial = call.arena.take(planes * parts * own);
  parallel_for(planes * parts, [&](std::size_t task, std::size_t worker) {
    const std::size_t plane = task / parts;
    const std::size_t first = task % parts * keys;
    TiledHead part = head(in, plane / s.heads, plane % s.heads, distances);
    part.keys = std::min(part.keys, first + keys);
    if (first > 0) part.sink = kNoSink;  // it counts once
    float* to = partial.data() + task * own;
    tiled_forward_few(part, first, Matrix(to, s.m, s.e), to + s.m * s.e,
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
  const auto distances = take_distances(s, counts[0], arena);
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
    tiled_forward(head(in, b, h, distances), first, std::min(group, s.m - first), y.head(b, h), lse,
                  scratch.data() + worker * floats, counts[worker]);
  });
  report(forward_work(s, total(counts)));
}

void FlashAttention::run_backward(const BackwardCall& call) const {
  const AttentionShape s = shape_of(call.in);
  const auto counts = take_counts(call.arena);
  const auto delta = call.arena.take(s.batch * s.heads * s.m);
  parallel_for(s.batch * s.heads, [&](std::size_t plane, std::size_t worker) {
    const std::size_t b = plane / s.heads;
    const std::size_t h = plane % s.heads;
    tiled_delta(call.y.head(b, h), call.dy.head(b, h), delta.data() + plane * s.m);
    counts[worker].queries += s.m;
  });
  spread_backward(call, delta, counts);
}

void FlashAttention::sink_gradient(const AttentionShape& s, std::span<const float> saved,
                                   std::span<const float> delta, std::span<float> to) const {
  parallel_for(s.heads, [&](std::size_t h, std::size_t /*worker*/) {
    const float level = std::numbers::log2e_v<float> * sinks_->value[h];
    float sum = 0.0F;
    for (std::size_t b = 0; b < s.batch; ++b) {
      const std::size_t first = (b * s.heads + h) * s.m;
      for (std::size_t i = first; i < first + s.m; ++i) {
        sum -= std::exp2(level - saved[i]) * delta[i];
      }
    }
    to[h] = sum;
  });
}

void FlashAttention::run_accumulate(const AttentionInputs& /*in*/, std::span<const float> /*saved*/,
                                    std::span<const float> signals) const {
  std::size_t taken = 0;
  for (Parameter* parameter : {sinks_, table_}) {
    if (parameter == nullptr) continue;
    add_row(signals.subspan(taken, parameter->size()), parameter->gradient.data());
    taken += parameter->size();
  }
  if (taken > 0) report(flops(Kind::kAdd, taken, 12 * taken));
}

void FlashAttention::backward_with_delta(const BackwardCall& call,
                                         std::span<const float> delta) const {
  const Arena::Frame frame(call.arena);
  spread_backward(call, delta, take_counts(call.arena));
}

void FlashAttention::spread_backward(const BackwardCall& call, std::span<const float> delta,
                                     std::span<TileCounts> counts) const {
  const AttentionInputs& in = call.in;
  const AttentionGradients& grad = call.grad;
  Arena& arena = call.arena;
  AttentionShape s = shape_of(in);
  const std::span<float> of_sinks = call.signals.first(sinks_ != nullptr ? s.heads : 0);
  if (sinks_ != nullptr) sink_gradient(s, call.saved, delta, of_sinks);
  s.bias_gradient = static_cast<bool>(grad.bias);
  const std::size_t chunks = key_chunks(s);
  const std::size_t rows = s.batch * s.heads * s.m;
  const std::size_t floats = tiled_backward_scratch(s.d, s.e);
  const auto distances = take_distances(s, counts[0], arena);
  const auto partials = arena.take((chunks - 1) * rows * s.d);
  const auto of_distances = arena.take(learns_buckets() ? s.batch * chunks * distance_size(s) : 0);
  const auto scratch = arena.take(workers() * floats);

  const FlashBackward backward(
      *this, in, call.dy, grad, chunks,
      {call.saved.data(), delta.data(), distances, partials.data(), of_distances});
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
  if (learns_buckets()) {
    backward.gather(buckets(), call.signals.subspan(of_sinks.size()), counts[0]);
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
