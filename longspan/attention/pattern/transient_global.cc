#include "longspan/attention/pattern/transient_global.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "longspan/base/error.h"
#include "longspan/base/integers.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/kernels/rows/norm.h"
#include "longspan/kernels/rows/vector.h"
#include "longspan/kernels/tiled/tile_layout.h"
#include "longspan/kernels/tiled/tiled_attention.h"

namespace longspan {

namespace {

FlashConfig window_of(const TransientGlobalConfig& c) {
  return {.scale = c.scale,
          .before = c.radius,
          .after = c.radius,
          .distances = DistanceKind::kBuckets,
          .buckets = c.buckets,
          .span = c.span};
}

Parameter& table_of_stack(const AttentionSite& site, std::size_t buckets) {
  const std::string name = site.stack + ".global_distances";
  Parameter* table = site.parameters.find(name);
  if (table == nullptr) {
    table =
        &site.parameters.declare(name, buckets, site.heads, Initializer::normal(site.deviation));
    table->place.block.reset();  // of the whole stack
  }
  require(
      table->rows == buckets && table->cols == site.heads,
      "[transient-global] the table {} has {} buckets for {} heads; the layers of a stack share "
      "it, and this one has {} for {}",
      name, table->rows, table->cols, buckets, site.heads);
  return *table;
}

}  // namespace

// x̂ before and after γ, 1/√…, and k̂|v̂, of all blocks of all sequences.
struct TransientGlobalAttention::Summaries {
  Summaries(float* memory, std::size_t rows, const Projection& key_value)
      : rows_of(memory, rows, key_value.inputs()),
        normalized(rows_of.data + rows_of.size(), rows, key_value.inputs()),
        kv(normalized.data + normalized.size(), rows, key_value.columns()),
        inverse(kv.data + kv.size(), rows) {}
  static std::size_t floats(std::size_t rows, const Projection& key_value) {
    return rows * (2 * key_value.inputs() + key_value.columns() + 1);
  }

  Matrix rows_of;
  Matrix normalized;
  Matrix kv;
  std::span<float> inverse;
};

// What one head has to do, summed over the sequences with summaries.
struct TransientGlobalAttention::Counts {
  std::uint64_t tokens = 0, pairs = 0, tiles = 0, passes = 0, blocks = 0;

  Counts(const TransientGlobalAttention& mechanism, const AttentionShape& s) {
    for (std::size_t b = 0; b < s.batch; ++b) {
      const std::size_t length = mechanism.tokens(s, b);
      const std::size_t own = mechanism.blocks(length);
      tokens += own > 0 ? length : 0;
      pairs += length * own;
      tiles += length * divide_up(own, kKeyBlock);
      passes += length * divide_up(own, kKeyPass);
      blocks += own;
    }
  }
  TileCounts forward(const AttentionShape& s) const {
    TileCounts c;
    c.queries = s.heads * tokens;
    c.pairs = s.heads * pairs;
    c.query_tiles = s.heads * tiles;
    return c;
  }
  TileCounts backward(const AttentionShape& s) const {
    TileCounts c;
    c.pairs = s.heads * pairs;
    c.query_passes = s.heads * passes;
    c.keys = s.kv_heads * blocks;
    return c;
  }
};

// The tokens against the summaries, merged with what the window gave.
class TransientGlobalAttention::Side {
 public:
  Side(const TransientGlobalAttention& mechanism, const AttentionInputs& in, ConstMatrix kv,
       bool backward, Arena& arena)
      : mechanism_(mechanism),
        in_(in),
        shape_(shape_of(in)),
        k_(ConstHeads::from_columns(kv.slice_cols(0, in.k.heads * in.k.d), in.k.batch, in.k.heads)),
        v_(ConstHeads::from_columns(kv.slice_cols(in.k.heads * in.k.d, in.v.heads * in.v.d),
                                    in.v.batch, in.v.heads)),
        floats_(scratch_floats(shape_, k_.n, backward)),
        table_(arena.take(shape_.heads * distances())),
        gradients_(arena.take(backward ? shape_.batch * shape_.heads * distances() : 0)),
        scratch_(arena.take(workers() * floats_)),
        counts_(arena.take<TileCounts>(workers())) {
    std::ranges::fill(counts_, TileCounts{});
    std::ranges::fill(gradients_, 0.0F);
    for_each_distance([&](std::size_t x, std::size_t h, std::size_t bucket) {
      table_[h * distances() + x] = mechanism_.table_->value[bucket * shape_.heads + h];
    });
  }
  static std::size_t bytes(const AttentionShape& s, std::size_t blocks, bool backward) {
    const std::size_t distances = s.heads * (2 * blocks - 1);
    return Arena::bytes_for(distances) + Arena::bytes_for(backward ? s.batch * distances : 0) +
           Arena::bytes_for(workers() * scratch_floats(s, blocks, backward)) +
           Arena::bytes_for<TileCounts>(workers());
  }

  // y and L of the window become those of both.
  void forward(const Heads& y, float* levels) const {
    const std::size_t tiles = divide_up(shape_.n, kQueryBlock);
    parallel_for(shape_.batch * shape_.heads * tiles, [&](std::size_t task, std::size_t worker) {
      const std::size_t plane = task / tiles;
      const std::size_t b = plane / shape_.heads;
      const std::size_t h = plane % shape_.heads;
      const Matrix rows = real_rows(y.head(b, h), b, task % tiles);
      if (rows.rows == 0 || blocks(b) == 0) return;
      const Room room(*this, worker, tiled_forward_scratch(shape_.d, shape_.e));
      const Matrix own(room.more, rows.rows, shape_.e);
      std::array<float, kQueryBlock> level;
      tiled_forward(head(b, h, task % tiles, room), 0, rows.rows, own, level.data(), room.tiles,
                    counts_[worker]);
      merge(own, level.data(), rows, levels + plane * shape_.n + task % tiles * kQueryBlock);
    });
    report(mechanism_.forward_work(shape_, total()));
  }

  // Adds to dq; sets dk and dv of the summaries, and the gradient of d'.
  struct Backward {
    ConstHeads dy;
    const float* levels;
    const float* delta;
    Heads dq, dk, dv;
    std::span<float> table;
  };
  void backward(const Backward& to) const {
    parallel_for(shape_.batch * shape_.kv_heads, [&](std::size_t plane, std::size_t worker) {
      const std::size_t b = plane / shape_.kv_heads;
      const std::size_t kv = plane % shape_.kv_heads;
      const std::size_t own = blocks(b);
      const Matrix dk = to.dk.head(b, kv);
      const Matrix dv = to.dv.head(b, kv);
      for (std::size_t key = 0; key < own; key += kKeyPass) {
        run_pass(to, b, kv, key, worker);
        const std::size_t count = std::min(kKeyPass, own - key);
        const Room room(*this, worker, tiled_backward_scratch(shape_.d, shape_.e));
        tiled_backward_store(mechanism_.scale(shape_.d), room.tiles, dk.slice_rows(key, count),
                             dv.slice_rows(key, count), counts_[worker]);
      }
      for (std::size_t g = own; g < dk.rows; ++g) {
        std::ranges::fill(dk.row(g), 0.0F);
        std::ranges::fill(dv.row(g), 0.0F);
      }
    });
    std::ranges::fill(to.table, 0.0F);
    for_each_distance([&](std::size_t x, std::size_t h, std::size_t bucket) {
      for (std::size_t b = 0; b < shape_.batch; ++b) {
        to.table[bucket * shape_.heads + h] += gradients_[(b * shape_.heads + h) * distances() + x];
      }
    });
    report(mechanism_.backward_work(shape_, total()));
  }

 private:
  // A worker's part of the scratch: the tiles' own, the biases of 64 queries, and more: forward
  // their y, backward the gradients of the biases.
  struct Room {
    Room(const Side& side, std::size_t worker, std::size_t floats)
        : tiles(side.scratch_.data() + worker * side.floats_),
          bias(tiles + round_up(floats, kTileUnit)),
          more(bias + kQueryBlock * side.k_.n) {}
    float *tiles, *bias, *more;
  };
  static std::size_t scratch_floats(const AttentionShape& s, std::size_t blocks, bool backward) {
    const std::size_t tiles =
        backward ? tiled_backward_scratch(s.d, s.e) : tiled_forward_scratch(s.d, s.e);
    return round_up(round_up(tiles, kTileUnit) + kQueryBlock * (blocks + (backward ? blocks : s.e)),
                    kTileUnit);
  }

  // β(i) − g from G − 1 down to 1 − G, so that a query's biases lie as its keys do.
  std::size_t distances() const { return 2 * k_.n - 1; }
  template <class F>
  void for_each_distance(const F& f) const {
    for (std::size_t x = 0; x < distances(); ++x) {
      const std::size_t bucket =
          bucket_of(mechanism_.buckets(),
                    static_cast<std::ptrdiff_t>(k_.n - 1) - static_cast<std::ptrdiff_t>(x));
      for (std::size_t h = 0; h < shape_.heads; ++h) f(x, h, bucket);
    }
  }
  std::size_t blocks(std::size_t b) const {
    return mechanism_.blocks(mechanism_.tokens(shape_, b));
  }
  // Where the distance of token i to block 0 lies.
  std::size_t place(std::size_t b, std::size_t i) const {
    return k_.n - 1 - std::min(mechanism_.blocks(i), blocks(b) - 1);
  }
  template <class T>
  MatrixView<T> real_rows(const MatrixView<T>& x, std::size_t b, std::size_t tile) const {
    const std::size_t length = mechanism_.tokens(shape_, b);
    const std::size_t first = std::min(tile * kQueryBlock, length);
    return x.slice_rows(first, std::min(kQueryBlock, length - first));
  }
  TileCounts total() const {
    TileCounts sum;
    for (const TileCounts& c : counts_) sum += c;
    return sum;
  }

  // A tile of queries as a head of its own, with its biases.
  TiledHead head(std::size_t b, std::size_t h, std::size_t tile, const Room& room) const {
    const std::size_t kv = h / (shape_.heads / shape_.kv_heads);
    TiledHead head;
    head.q = real_rows(in_.q.head(b, h), b, tile);
    head.k = k_.head(b, kv);
    head.v = v_.head(b, kv);
    head.keys = blocks(b);
    head.scale = mechanism_.scale(shape_.d);
    head.bias = room.bias;
    head.bias_stride = k_.n;
    for (std::size_t i = 0; i < head.q.rows; ++i) {
      std::copy_n(&table_[h * distances() + place(b, tile * kQueryBlock + i)], head.keys,
                  room.bias + i * k_.n);
    }
    head.dropout = in_.dropout;
    head.dropout.key = derive(in_.dropout.key, tile);
    head.plane = static_cast<std::uint32_t>(b * shape_.heads + h);
    return head;
  }

  void merge(ConstMatrix own, const float* level, Matrix y, float* levels) const {
    constexpr float kNothing = std::numeric_limits<float>::infinity();  // L where nothing is seen
    for (std::size_t i = 0; i < y.rows; ++i) {
      if (level[i] == kNothing) continue;
      const bool alone = levels[i] == kNothing;
      const float top = alone ? level[i] : std::max(levels[i], level[i]);
      const float before = alone ? 0.0F : std::exp2(levels[i] - top);
      const float more = std::exp2(level[i] - top);
      const float inverse = 1.0F / (before + more);
      levels[i] = top + std::log2(before + more);
      const float* from = own.row_data(i);
      float* to = y.row_data(i);
      for (std::size_t c = 0; c < y.cols; ++c) {
        to[c] = before * inverse * to[c] + more * inverse * from[c];
      }
    }
  }

  void run_pass(const Backward& to, std::size_t b, std::size_t kv, std::size_t key,
                std::size_t worker) const {
    const Room room(*this, worker, tiled_backward_scratch(shape_.d, shape_.e));
    const std::size_t count = std::min(kKeyPass, blocks(b) - key);
    tiled_backward_clear(count, shape_.d, shape_.e, room.tiles);
    const std::size_t group = shape_.heads / shape_.kv_heads;
    for (std::size_t h = kv * group; h < (kv + 1) * group; ++h) {
      const std::size_t plane = b * shape_.heads + h;
      for (std::size_t t = 0; t * kQueryBlock < mechanism_.tokens(shape_, b); ++t) {
        const TiledHead tile = head(b, h, t, room);
        const std::size_t first = plane * shape_.n + t * kQueryBlock;
        TiledGradient g;
        g.dy = real_rows(to.dy.head(b, h), b, t);
        g.lse = to.levels + first;
        g.delta = to.delta + first;
        g.dq = real_rows(to.dq.head(b, h), b, t);
        g.dbias = room.more;
        g.dbias_stride = k_.n;
        std::fill_n(room.more, tile.q.rows * k_.n, 0.0F);
        tiled_backward_add(tile, g, key, room.tiles, counts_[worker]);
        for (std::size_t i = 0; i < tile.q.rows; ++i) {
          float* sums =
              gradients_.data() + plane * distances() + place(b, t * kQueryBlock + i) + key;
          const float* from = room.more + i * k_.n + key;
          for (std::size_t j = 0; j < count; ++j) sums[j] += from[j];
        }
      }
    }
  }

  const TransientGlobalAttention& mechanism_;
  const AttentionInputs& in_;
  AttentionShape shape_;
  ConstHeads k_, v_;
  std::size_t floats_;
  std::span<float> table_;
  std::span<float> gradients_;  // of d', by sequence and head
  std::span<float> scratch_;
  std::span<TileCounts> counts_;
};

Abilities TransientGlobalAttention::can(const TransientGlobalConfig& config) {
  check_numbers(kName, config);
  FlashAttention::can(window_of(config));
  return {.key_lengths = true,
          .dropout = true,
          .grouped_heads = true,
          .not_causal = "a block's summary holds later tokens"};
}

Streams TransientGlobalAttention::streams(const TransientGlobalConfig& /*config*/,
                                          const AttentionLayout& layout) {
  Streams streams = Streams::qkv(layout);
  streams.on_call = {streams.given[1], streams.given[2]};
  return streams;
}

TransientGlobalAttention::TransientGlobalAttention(const TransientGlobalConfig& config,
                                                   const AttentionSite& site)
    : Attention(can(config)),
      config_(config),
      flash_(window_of(config), site),
      key_value_(site.projections.of("k", "v")),
      gamma_(&site.parameters.declare(site.name + ".global_norm.gamma", site.d_model,
                                      Initializer::ones())),
      table_(&table_of_stack(site, config.buckets)) {
  require(
      table_->rows == config.buckets && table_->cols == site.heads,
      "[transient-global] the table {} has {} buckets for {} heads; the layers of a stack share "
      "it, and this one has {} for {}",
      table_->name, table_->rows, table_->cols, config.buckets, site.heads);
}

void TransientGlobalAttention::check_more(const AttentionShape& s) const {
  require(s.m == s.n && s.d == s.e,
          "[transient-global] {} queries {} wide of {} keys and values {} wide; need as many, as "
          "wide",
          s.m, s.d, s.n, s.e);
}

float TransientGlobalAttention::scale(std::size_t d) const {
  return config_.scale > 0.0 ? static_cast<float>(config_.scale)
                             : 1.0F / std::sqrt(static_cast<float>(d));
}

std::size_t TransientGlobalAttention::tokens(const AttentionShape& s, std::size_t b) const {
  return s.key_lengths.empty() ? s.n : static_cast<std::size_t>(s.key_lengths[b]);
}

std::string_view TransientGlobalAttention::reason(const AttentionShape& s, std::size_t /*head*/,
                                                  std::size_t i, std::size_t j) const {
  const std::size_t length = tokens(s, 0);
  if (std::max(i, j) >= length) return "";
  if ((i > j ? i - j : j - i) <= config_.radius) return "window";
  return length >= config_.block ? "global" : "";
}

template <class F>
void TransientGlobalAttention::for_each_block(const AttentionShape& s, const F& f) const {
  parallel_for(summaries(s), [&](std::size_t row, std::size_t) {
    const std::size_t b = row / blocks(s.n);
    const std::size_t g = row % blocks(s.n);
    const std::size_t length = tokens(s, b);
    const std::size_t own = blocks(length);
    if (g >= own) return f(b * s.n, std::size_t{0}, row);
    const std::size_t first = g * config_.block;
    f(b * s.n + first, (g + 1 < own ? first + config_.block : length) - first, row);
  });
}

void TransientGlobalAttention::summarize(const AttentionInputs& in, const Summaries& to,
                                         Arena& arena) const {
  const AttentionShape s = shape_of(in);
  const Arena::Frame frame(arena);
  const Matrix sums = arena.matrix(to.kv.rows, key_value_.inputs());
  for_each_block(s, [&](std::size_t first, std::size_t count, std::size_t row) {
    std::ranges::fill(sums.row(row), 0.0F);
    for (std::size_t i = first; i < first + count; ++i) add_row(in.x.row(i), sums.row_data(row));
  });
  report(sum_work(s));
  norm_forward(NormKind::kRms, config_.epsilon, sums, gamma_->value.data(), nullptr, to.rows_of,
               to.normalized, to.inverse);
  key_value_.forward(to.rows_of, to.kv);
}

Work TransientGlobalAttention::sum_work(const AttentionShape& s) const {
  const std::size_t size = Counts(*this, s).tokens * key_value_.inputs();
  return flops(Kind::kAdd, size, 8 * size);
}

void TransientGlobalAttention::spread(const AttentionShape& s, ConstMatrix dsums, Matrix dx) const {
  fill(dx, 0.0F);
  for_each_block(s, [&](std::size_t first, std::size_t count, std::size_t row) {
    for (std::size_t i = first; i < first + count; ++i) {
      std::ranges::copy(dsums.row(row), dx.row_data(i));
    }
  });
}

Work TransientGlobalAttention::forward_work(const AttentionShape& s, const TileCounts& c) const {
  const std::size_t table = s.heads * (2 * blocks(s.n) - 1);
  Work work;
  work.maccs = c.pairs * (s.d + s.e);
  work[Kind::kMatmul] = c.queries * s.d;
  work[Kind::kSoftmax] =
      4 * c.pairs + (s.e + 3) * (c.query_tiles + c.queries) + (3 * s.e + 10) * c.queries;
  work[Kind::kAdd] = 2 * c.pairs + table;
  if (s.dropout) work[Kind::kDropout] = c.pairs;
  work.bytes[static_cast<std::size_t>(Kind::kMatmul)] =
      4 * (c.queries * (s.d + 3 * s.e) + summaries(s) * s.kv_heads * (s.d + s.e));
  return work;
}

Work TransientGlobalAttention::backward_work(const AttentionShape& s, const TileCounts& c) const {
  const std::size_t table = s.heads * (2 * blocks(s.n) - 1);
  Work work;
  work.maccs = c.pairs * (3 * s.d + 2 * s.e);
  work[Kind::kMatmul] = (c.query_passes + c.keys) * s.d;
  work[Kind::kSoftmax] = 4 * c.pairs;
  work[Kind::kAdd] = 2 * c.query_passes * s.d + 4 * c.pairs + (s.batch + 1) * table;
  if (s.dropout) work[Kind::kDropout] = 2 * c.pairs;
  work.bytes[static_cast<std::size_t>(Kind::kMatmul)] =
      4 * (c.query_passes * (3 * s.d + s.e) + 2 * summaries(s) * s.kv_heads * (s.d + s.e));
  return work;
}

AttentionCost TransientGlobalAttention::cost(const AttentionShape& s) const {
  check_more(s);
  const std::size_t levels = s.batch * s.heads * s.n;
  const std::size_t rows = summaries(s);
  const std::size_t dm = key_value_.inputs();
  AttentionCost cost = flash_.cost_with_delta(s);
  cost.backward.maccs += levels * s.e;
  const std::size_t kept = rows > 0 ? Summaries::floats(rows, key_value_) : 0;
  const std::size_t own = Arena::bytes_for(levels + kept);
  cost.saved = levels + kept;
  if (rows > 0) {
    const Counts counts(*this, s);
    const NormFlops norm = norm_flops(NormKind::kRms, false, rows, dm);
    cost.forward += sum_work(s) + forward_work(s, counts.forward(s));
    cost.forward += flops(Kind::kNorm, norm.forward, 4 * (3 * rows * dm + rows + dm));
    cost.forward += key_value_.forward_work(rows);
    cost.backward += backward_work(s, counts.backward(s)) + key_value_.backward_work(rows);
    cost.backward += flops(Kind::kNorm, norm.backward, 4 * (3 * rows * dm + rows + dm));
    cost.update += key_value_.update_work(rows);
    cost.update += flops(Kind::kNorm, norm.accumulate, 4 * (2 * rows * dm + 2 * dm));
    cost.update += flops(Kind::kAdd, table_->size(), 12 * table_->size());
    cost.signals += table_->size() + rows * (key_value_.columns() + dm);
    cost.forward_scratch = std::max({cost.forward_scratch, Arena::bytes_for(rows * dm),
                                     Side::bytes(s, blocks(s.n), /*backward=*/false)});
    cost.backward_scratch =
        std::max(cost.backward_scratch, Side::bytes(s, blocks(s.n), /*backward=*/true));
  }
  cost.forward_scratch += own;
  cost.backward_scratch += Arena::bytes_for(levels) + Arena::bytes_for(rows * dm);
  return cost;
}

void TransientGlobalAttention::run_forward(const ForwardCall& call) const {
  const AttentionShape s = shape_of(call.in);
  const std::size_t levels = s.batch * s.heads * s.n;
  const std::size_t rows = summaries(s);
  // Booked either way, so that saving does not change the scratch.
  const auto own = call.arena.take(levels + (rows > 0 ? Summaries::floats(rows, key_value_) : 0));
  const std::span<float> kept = call.saved.empty() ? own : call.saved;
  flash_.forward({call.in, call.y, kept.first(levels), call.arena});
  if (rows == 0) return;
  const Summaries x(kept.data() + levels, rows, key_value_);
  summarize(call.in, x, call.arena);
  Side(*this, call.in, x.kv, /*backward=*/false, call.arena).forward(call.y, kept.data());
}

void TransientGlobalAttention::run_backward(const BackwardCall& call) const {
  const AttentionShape s = shape_of(call.in);
  const std::size_t planes = s.batch * s.heads;
  const std::size_t rows = summaries(s);
  const std::span<const float> levels = call.saved.first(planes * s.n);
  const auto delta = call.arena.take(planes * s.n);
  parallel_for(planes, [&](std::size_t plane, std::size_t) {
    tiled_delta(call.y.head(plane / s.heads, plane % s.heads),
                call.dy.head(plane / s.heads, plane % s.heads), delta.data() + plane * s.n);
  });
  report(maccs(planes * s.n * s.e));
  const Matrix dsums = call.arena.matrix(rows, key_value_.inputs());
  const std::size_t of_window = flash_.cost_with_delta(s).signals;
  flash_.backward_with_delta(
      {call.in, call.y, call.dy, levels, call.grad, call.signals.first(of_window), call.arena},
      delta);
  if (rows == 0) return fill(call.grad.x, 0.0F);
  // Only read: the constructor is shared with forward, which writes.
  const Summaries x(const_cast<float*>(call.saved.data()) + levels.size(), rows,  // NOLINT
                    key_value_);
  const std::span<float> table = call.signals.subspan(of_window, table_->size());
  const Matrix dkv(table.data() + table.size(), rows, key_value_.columns());
  const Matrix drows(dkv.data + dkv.size(), rows, key_value_.inputs());
  const std::size_t w = s.kv_heads * s.d;
  Side(*this, call.in, x.kv, /*backward=*/true, call.arena)
      .backward({call.dy, levels.data(), delta.data(), call.grad.q,
                 Heads::from_columns(dkv.slice_cols(0, w), s.batch, s.kv_heads),
                 Heads::from_columns(dkv.slice_cols(w, w), s.batch, s.kv_heads), table});
  key_value_.backward(dkv, drows, /*add=*/false);
  norm_backward(NormKind::kRms, x.normalized, x.inverse, gamma_->value.data(), drows, dsums,
                /*add=*/false);
  spread(s, dsums, call.grad.x);
}

void TransientGlobalAttention::run_accumulate(const AttentionInputs& in,
                                              std::span<const float> saved,
                                              std::span<const float> signals) const {
  const AttentionShape s = shape_of(in);
  const std::size_t rows = summaries(s);
  const std::size_t of_window = flash_.cost_with_delta(s).signals;
  flash_.accumulate(in, saved.first(s.batch * s.heads * s.n), signals.first(of_window));
  if (rows == 0) return;
  const Summaries x(const_cast<float*>(saved.data()) + s.batch * s.heads * s.n,  // NOLINT
                    rows, key_value_);
  const std::span<const float> table = signals.subspan(of_window, table_->size());
  const ConstMatrix dkv(table.data() + table.size(), rows, key_value_.columns());
  const ConstMatrix drows(dkv.data + dkv.size(), rows, key_value_.inputs());
  axpy(1.0F, ConstMatrix(table.data(), table_->rows, table_->cols), table_->gradient_matrix());
  key_value_.accumulate(x.rows_of, dkv);
  norm_accumulate(NormKind::kRms, x.normalized, drows, gamma_->gradient.data(), nullptr);
}

}  // namespace longspan
