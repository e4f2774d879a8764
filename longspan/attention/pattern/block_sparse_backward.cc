#include <algorithm>

#include "longspan/attention/pattern/block_sparse.h"
#include "longspan/attention/pattern/block_sparse_run.h"
#include "longspan/kernels/rows/vector.h"
#include "longspan/kernels/tiled/tile_layout.h"

namespace longspan {

using namespace detail;  // NOLINT(google-build-using-namespace)

namespace {

// How many parts the queries are cut into in backward: enough tasks for the cores of a large
// machine, few enough that their sums of dk and dv stay a small multiple of k and v.
std::size_t query_chunks(const AttentionShape& s) {
  constexpr std::size_t kTasks = 16;
  constexpr std::size_t kMostChunks = 8;
  constexpr std::size_t kLeastQueries = 512;
  return std::min(
      {divide_up(kTasks, s.batch * s.kv_heads), kMostChunks, divide_up(s.m, kLeastQueries)});
}

// Rows of d floats that end with whole vectors can hold a sum themselves.
bool in_place(std::size_t width) { return width % kTileUnit == 0; }

Work backward_work(const AttentionShape& s, const TileCounts& c, const RelativeCounts& relative) {
  const std::size_t width = c.table > 0 ? relative.width : 0;
  Work work;
  work.maccs = c.pairs * (3 * s.d + 2 * s.e) + c.queries * s.e + 3 * c.table * width;
  work[Kind::kMatmul] = c.queries * (s.d + s.e + 1 + width);
  work[Kind::kSoftmax] = 4 * c.pairs;
  work[Kind::kAdd] = c.partials * (s.d + s.e) + 2 * relative.terms * c.keys + c.queries * width +
                     c.relative_partials;
  if (s.dropout) work[Kind::kDropout] = 2 * c.pairs;
  work.bytes[static_cast<std::size_t>(Kind::kMatmul)] =
      4 * s.batch * (s.heads * s.m * (2 * s.d + 2 * s.e + 1) + 2 * s.kv_heads * s.n * (s.d + s.e));
  return work;
}

// The keys [begin, end) that a chunk of the queries of a key head can see.
struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// The tiles [begin, end) of a head that belong to a chunk.
Span chunk_tiles(std::size_t tiles, std::size_t chunk, std::size_t chunks) {
  return {tiles * chunk / chunks, tiles * (chunk + 1) / chunks};
}

void widen(const BlockPattern& pattern, std::size_t b, std::size_t h, const PatternTile& tile,
           Span& span) {
  const std::size_t step = pattern.dilation(h);
  for (const KeyRange& r : tile.tile.ranges) {
    if (r.size() == 0 || tile.tile.lanes == 0) continue;
    std::size_t begin = r.begin * step + tile.phase;
    std::size_t end = (r.end - 1) * step + tile.phase + 1;
    if (r.kind == KeyRange::Kind::kGathered) {
      begin = pattern.gathered(b)[r.begin];
      end = pattern.gathered(b)[r.end - 1] + 1;
    }
    span = span.begin == span.end ? Span{begin, end}
                                  : Span{std::min(span.begin, begin), std::max(span.end, end)};
  }
}

Span chunk_span(const BlockPattern& pattern, std::size_t b, std::size_t kv, std::size_t chunk,
                std::size_t chunks, std::span<KeyRange> room) {
  const AttentionShape& s = pattern.shape();
  const std::size_t group = s.heads / s.kv_heads;
  Span span;
  for (std::size_t h = kv * group; h < (kv + 1) * group; ++h) {
    const Span tiles = chunk_tiles(pattern.tiles(b, h), chunk, chunks);
    for (std::size_t t = tiles.begin; t < tiles.end; ++t) {
      widen(pattern, b, h, pattern.tile(b, h, t, room), span);
    }
  }
  return span;
}

// Calls f(b, j, worker) for every key of every sequence, neighbours on one thread.
template <class F>
void each_key(const AttentionShape& s, const F& f) {
  constexpr std::size_t kRows = 64;
  const std::size_t pieces = divide_up(s.n, kRows);
  parallel_for(pieces * s.batch, [&](std::size_t task, std::size_t worker) {
    const std::size_t first = task % pieces * kRows;
    const std::size_t last = std::min(s.n, first + kRows);
    for (std::size_t j = first; j < last; ++j) f(task / pieces, j, worker);
  });
}

class Backward {
 public:
  Backward(const BlockPattern& pattern, const SparseInputs& in, ConstHeads dy, const float* lse,
           const SparseResults& results, Arena& arena)
      : pattern_(pattern),
        in_(in),
        inputs_(pattern, in, arena),
        dy_(dy),
        lse_(lse),
        results_(results),
        chunks_(query_chunks(pattern.shape())) {
    const AttentionShape& s = pattern.shape();
    delta_ = arena.take(s.batch * s.heads * s.m);
    sums_ = arena.take(sum_floats(s));
    spans_ = arena.take<Span>(s.batch * s.kv_heads * chunks_);
    tables_ = arena.take(chunks_ == 1 ? 0 : chunks_ * results.relative.table.size());
    keys_ = arena.take((chunks_ - 1) * s.batch * s.heads * s.n * in.relative.keys.d);
  }

  static std::size_t bytes(const BlockPattern& pattern, const RelativeSizes& relative) {
    const AttentionShape& s = pattern.shape();
    const std::size_t chunks = query_chunks(s);
    const std::size_t planes = s.batch * s.heads;
    const std::size_t table =
        planes * relative.table * tile_pitch(RelativeCounts::of(relative, s).width);
    return KeyPlanes::bytes(pattern) + Arena::bytes_for(planes * s.m) +
           Arena::bytes_for(sum_floats(s)) + Arena::bytes_for<Span>(s.batch * s.kv_heads * chunks) +
           Arena::bytes_for(chunks == 1 ? 0 : chunks * table) +
           Arena::bytes_for((chunks - 1) * planes * s.n * relative.keys);
  }

  // Calls f(task) for every chunk of the queries of every key head, on all threads.
  template <class F>
  void for_each_task(const F& f) {
    inputs_.for_each([&](std::size_t first, std::size_t count) {
      parallel_for(count * chunks_, [&](std::size_t task, std::size_t worker) {
        f(first * chunks_ + task, worker);
      });
    });
  }

  void run_delta(ConstHeads y, std::size_t plane) const {
    const std::size_t b = plane / shape().heads;
    const std::size_t h = plane % shape().heads;
    const std::size_t queries = pattern_.queries(b);
    tiled_delta(y.head(b, h).slice_rows(0, queries), dy_.head(b, h).slice_rows(0, queries),
                delta_.data() + plane * shape().m);
    const Matrix dq = results_.dq.head(b, h);
    for (std::size_t i = queries; i < dq.rows; ++i) std::ranges::fill(dq.row(i), 0.0F);
    if (results_.relative.q.n == 0) return;
    const Matrix dqr = results_.relative.q.head(b, h);
    for (std::size_t i = queries; i < dqr.rows; ++i) std::ranges::fill(dqr.row(i), 0.0F);
  }

  void run(std::size_t task, const Room& room, TileCounts& counts) const {
    const std::size_t chunk = task % chunks_;
    const std::size_t b = task / chunks_ / shape().kv_heads;
    const std::size_t kv = task / chunks_ % shape().kv_heads;
    const Matrix dk = sum(b, kv, chunk, true);
    const Matrix dv = sum(b, kv, chunk, false);
    const Span span =
        chunk == 0 ? Span{0, shape().n} : chunk_span(pattern_, b, kv, chunk, chunks_, room.ranges);
    spans_[task] = span;
    for (std::size_t j = span.begin; j < span.end; ++j) {
      std::fill_n(dk.row_data(j), tile_width(dk.cols), 0.0F);
      std::fill_n(dv.row_data(j), tile_width(dv.cols), 0.0F);
    }
    const std::size_t group = shape().heads / shape().kv_heads;
    for (std::size_t h = kv * group; h < (kv + 1) * group; ++h) {
      clear_relative(b, h, chunk);
      const Span tiles = chunk_tiles(pattern_.tiles(b, h), chunk, chunks_);
      for (std::size_t t = tiles.begin; t < tiles.end; ++t) {
        run_tile(b, h, chunk, t, dk, dv, room, counts);
      }
    }
  }

  // grad.k and grad.v of key j of a sequence += the partial sums, in order; heads are neighbours in
  // memory.
  void reduce(std::size_t b, std::size_t j, TileCounts& counts) const {
    for (const bool keys : {true, false}) {
      for (std::size_t kv = 0; kv < shape().kv_heads; ++kv) {
        const Matrix to = (keys ? results_.dk : results_.dv).head(b, kv);
        const Matrix first = sum(b, kv, 0, keys);
        if (first.data != to.data) std::copy_n(first.row_data(j), to.cols, to.row_data(j));
        for (std::size_t chunk = 1; chunk < chunks_; ++chunk) {
          const Span span = spans_[(b * shape().kv_heads + kv) * chunks_ + chunk];
          if (j < span.begin || j >= span.end) continue;
          add_row(sum(b, kv, chunk, keys).row(j), to.row_data(j));
          counts.partials += keys ? 1 : 0;
        }
      }
    }
  }
  bool reduces() const { return chunks_ > 1 || !in_place(shape().d) || !in_place(shape().e); }

  // The same for the tables of relative terms of a head.
  void reduce_relative(std::size_t plane, TileCounts& counts) const {
    if (chunks_ == 1) return;
    const std::size_t b = plane / shape().heads;
    const std::size_t h = plane % shape().heads;
    if (in_.relative.table.n > 0) {
      const Matrix to = table_of(plane);
      for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
        add_to(table(plane, chunk), to, chunk == 0);
      }
      counts.relative_partials += (chunks_ - 1) * to.rows * in_.relative.table.d;
    }
    if (in_.relative.keys.n > 0) {
      const Matrix to = results_.relative.keys.head(b, h);
      for (std::size_t chunk = 1; chunk < chunks_; ++chunk) {
        add_to(keys(plane, chunk), to, false);
      }
      counts.relative_partials += (chunks_ - 1) * to.rows * to.cols;
    }
  }

 private:
  const AttentionShape& shape() const { return pattern_.shape(); }

  // Chunk 0 adds to the result itself where it can.
  static std::size_t own_sums(const AttentionShape& s, std::size_t width) {
    return query_chunks(s) - (in_place(width) ? 1 : 0);
  }
  static std::size_t sum_floats(const AttentionShape& s) {
    return s.batch * s.kv_heads * s.n *
           (own_sums(s, s.d) * tile_pitch(s.d) + own_sums(s, s.e) * tile_pitch(s.e));
  }
  Matrix sum(std::size_t b, std::size_t kv, std::size_t chunk, bool keys) const {
    const AttentionShape& s = shape();
    const std::size_t width = keys ? s.d : s.e;
    if (in_place(width)) {
      if (chunk == 0) return (keys ? results_.dk : results_.dv).head(b, kv);
      --chunk;
    }
    const std::size_t planes = s.batch * s.kv_heads;
    float* block = sums_.data() + (keys ? 0 : planes * s.n * own_sums(s, s.d) * tile_pitch(s.d));
    return {block + (chunk * planes + b * s.kv_heads + kv) * s.n * tile_pitch(width), s.n, width,
            tile_pitch(width)};
  }

  // The gradient of a head's table T: of one chunk, and the sum.
  Matrix table_of(std::size_t plane) const {
    const std::size_t rows = in_.relative.table.n;
    return results_.relative.table.slice_rows(plane * rows, rows);
  }
  Matrix table(std::size_t plane, std::size_t chunk) const {
    const Matrix whole = table_of(plane);
    if (chunks_ == 1) return whole;
    const Matrix& all = results_.relative.table;
    return {tables_.data() + chunk * all.size() + plane * whole.size(), whole.rows, whole.cols};
  }
  Matrix keys(std::size_t plane, std::size_t chunk) const {
    const AttentionShape& s = shape();
    if (chunk == 0) return results_.relative.keys.head(plane / s.heads, plane % s.heads);
    const std::size_t size = s.n * in_.relative.keys.d;
    return {keys_.data() + ((chunk - 1) * s.batch * s.heads + plane) * size, s.n,
            in_.relative.keys.d};
  }
  void clear_relative(std::size_t b, std::size_t h, std::size_t chunk) const {
    const std::size_t plane = b * shape().heads + h;
    if (in_.relative.table.n > 0) clear(table(plane, chunk));
    if (in_.relative.keys.n > 0) clear(keys(plane, chunk));
  }
  static void clear(Matrix x) {
    for (std::size_t i = 0; i < x.rows; ++i) std::ranges::fill(x.row(i), 0.0F);
  }
  static void add_to(ConstMatrix from, Matrix to, bool set) {
    for (std::size_t i = 0; i < to.rows; ++i) {
      for (std::size_t c = 0; c < to.cols; ++c) {
        to.row_data(i)[c] = from.row_data(i)[c] + (set ? 0.0F : to.row_data(i)[c]);
      }
    }
  }

  void run_tile(std::size_t b, std::size_t h, std::size_t chunk, std::size_t t, Matrix dk,
                Matrix dv, const Room& room, TileCounts& counts) const {
    const PatternTile tile = pattern_.tile(b, h, t, room.ranges);
    if (tile.tile.lanes == 0) return;
    const SparseHead head = sparse_head(pattern_, in_, inputs_, b, h, tile);
    const std::size_t plane = b * shape().heads + h;
    LaneValues lse(head, tile.tile);
    LaneValues delta(head, tile.tile);
    SparseGradient g;
    g.dy = every(dy_.head(b, h), head.first_query, head.dilation);
    g.lse = lse.read(lse_ + plane * shape().m);
    g.delta = delta.read(delta_.data() + plane * shape().m);
    g.dq = every(results_.dq.head(b, h), head.first_query, head.dilation);
    if (results_.relative.q.n > 0) g.dqr = results_.relative.q.head(b, h);
    g.dk = every(dk, tile.phase, head.dilation);
    g.dv = every(dv, tile.phase, head.dilation);
    g.all_dk = dk;
    g.all_dv = dv;
    if (in_.relative.table.n > 0) g.dtable = table(plane, chunk);
    if (in_.relative.keys.n > 0) g.dkeys = keys(plane, chunk);
    sparse_backward(head, tile.tile, g, room.memory, counts);
  }

  const BlockPattern& pattern_;
  const SparseInputs& in_;
  KeyPlanes inputs_;
  ConstHeads dy_;
  const float* lse_;
  const SparseResults& results_;
  std::size_t chunks_;
  std::span<float> delta_;
  std::span<float> sums_;
  std::span<Span> spans_;
  std::span<float> tables_;  // gradients of T by chunk, when there are several
  std::span<float> keys_;    // gradients of K·Uᵀ of the chunks after the first
};

void count_partials(const BlockPattern& pattern, const RelativeSizes& relative,
                    TileCounts& counts) {
  const AttentionShape& s = pattern.shape();
  const std::size_t chunks = query_chunks(s);
  const std::span<KeyRange> room = counting_room(pattern.most_ranges());
  for (std::size_t plane = 0; plane < s.batch * s.kv_heads; ++plane) {
    for (std::size_t chunk = 1; chunk < chunks; ++chunk) {
      const Span span =
          chunk_span(pattern, plane / s.kv_heads, plane % s.kv_heads, chunk, chunks, room);
      counts.partials += span.end - span.begin;
    }
  }
  counts.relative_partials +=
      (chunks - 1) * s.batch * s.heads *
      (relative.table * RelativeCounts::of(relative, s).width + s.n * relative.keys);
}

}  // namespace

void detail::add_backward_cost(const BlockPattern& pattern, const RelativeSizes& relative,
                               const TileCounts& forward, AttentionCost& cost) {
  const AttentionShape& s = pattern.shape();
  TileCounts counts = forward;
  count_partials(pattern, relative, counts);
  cost.backward = backward_work(s, counts, RelativeCounts::of(relative, s));
  cost.backward_scratch =
      Rooms::bytes(pattern, sparse_backward_scratch(s.d, s.e, relative.table, relative.columns)) +
      Backward::bytes(pattern, relative);
}

void sparse_backward(const BlockPattern& pattern, const SparseInputs& in, ConstHeads y,
                     ConstHeads dy, std::span<const float> saved, const SparseResults& results,
                     Arena& arena) {
  const AttentionShape& s = pattern.shape();
  const Rooms rooms(
      pattern, sparse_backward_scratch(s.d, s.e, in.relative.table.n, in.relative.columns.rows > 0),
      arena);
  Backward backward(pattern, in, dy, saved.data(), results, arena);
  parallel_for(s.batch * s.heads,
               [&](std::size_t plane, std::size_t) { backward.run_delta(y, plane); });
  backward.for_each_task([&](std::size_t task, std::size_t worker) {
    backward.run(task, rooms.at(worker), rooms.counts(worker));
  });
  if (backward.reduces()) {
    each_key(s, [&](std::size_t b, std::size_t j, std::size_t worker) {
      backward.reduce(b, j, rooms.counts(worker));
    });
  }
  if (in.relative.terms() > 0) {
    parallel_for(s.batch * s.heads, [&](std::size_t plane, std::size_t worker) {
      backward.reduce_relative(plane, rooms.counts(worker));
    });
  }
  report(backward_work(s, rooms.total(), RelativeCounts::of(in.relative)));
}

}  // namespace longspan
