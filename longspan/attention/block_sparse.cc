#include "longspan/attention/block_sparse.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "longspan/base/parallel.h"
#include "longspan/kernels/tile_layout.h"

namespace longspan {

namespace {

constexpr std::size_t kTilesPerTask = 8;

std::size_t divide_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }
std::size_t workers() { return static_cast<std::size_t>(thread_count()); }

std::size_t most_tiles(const BlockPattern& pattern) {
  const AttentionShape& s = pattern.shape();
  std::size_t most = 0;
  for (std::size_t b = 0; b < s.batch; ++b) {
    for (std::size_t h = 0; h < s.heads; ++h) most = std::max(most, pattern.tiles(b, h));
  }
  return most;
}

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

// A worker's share of the scratch.
struct Room {
  std::span<KeyRange> ranges;
  float* memory;
};

class Rooms {
 public:
  Rooms(const BlockPattern& pattern, std::size_t floats, Arena& arena)
      : most_(pattern.most_ranges()),
        floats_(floats),
        ranges_(arena.take<KeyRange>(workers() * most_)),
        memory_(arena.take(workers() * floats)),
        counts_(arena.take<TileCounts>(workers())) {
    std::ranges::fill(counts_, TileCounts{});
  }
  static std::size_t bytes(const BlockPattern& pattern, std::size_t floats) {
    return Arena::bytes_for<KeyRange>(workers() * pattern.most_ranges()) +
           Arena::bytes_for(workers() * floats) + Arena::bytes_for<TileCounts>(workers());
  }
  Room at(std::size_t worker) const {
    return {ranges_.subspan(worker * most_, most_), memory_.data() + worker * floats_};
  }
  TileCounts& counts(std::size_t worker) const { return counts_[worker]; }
  TileCounts total() const {
    TileCounts sum;
    for (const TileCounts& c : counts_) sum += c;
    return sum;
  }

 private:
  std::size_t most_;
  std::size_t floats_;
  std::span<KeyRange> ranges_;
  std::span<float> memory_;
  std::span<TileCounts> counts_;
};

// Every `step`-th row from `first` on.
template <class T>
MatrixView<T> every(MatrixView<T> x, std::size_t first, std::size_t step) {
  if (step == 1) return x;
  const std::size_t rows = first < x.rows ? divide_up(x.rows - first, step) : 0;
  return {x.data + first * x.stride, rows, x.cols, x.stride * step};
}

// The geometry of a head: what counting needs, without tensors.
SparseHead geometry(const BlockPattern& pattern, std::size_t b, std::size_t h, std::size_t phase) {
  const std::size_t step = pattern.dilation(h);
  const std::size_t offset = pattern.offset();
  SparseHead head;
  head.dilation = static_cast<std::uint32_t>(step);
  head.first_key = static_cast<std::uint32_t>(phase);
  // The first query at or after position `offset` that belongs to the phase.
  const std::size_t position = offset + (phase + step - offset % step) % step;
  head.first_query = static_cast<std::uint32_t>(position - offset);
  head.offset = static_cast<std::ptrdiff_t>(position / step);
  head.before = pattern.before();
  head.after = pattern.after();
  head.gathered = pattern.gathered(b);
  return head;
}

SparseHead sparse_head(const BlockPattern& pattern, const SparseInputs& in, std::size_t b,
                       std::size_t h, std::size_t phase) {
  const std::size_t kv = h / (in.q.heads / in.k.heads);
  SparseHead head = geometry(pattern, b, h, phase);
  head.q = every(in.q.head(b, h), head.first_query, head.dilation);
  head.k = every(in.k.head(b, kv), phase, head.dilation);
  head.v = every(in.v.head(b, kv), phase, head.dilation);
  head.all_k = in.k.head(b, kv);
  head.all_v = in.v.head(b, kv);
  head.scale = in.scale;
  head.relative.bucket = in.relative.bucket;
  if (in.relative.table.n > 0) {
    head.relative.q = in.relative.q.head(b, h);
    head.relative.table = in.relative.table.head(b, h);
  }
  if (in.relative.keys.n > 0) head.relative.keys = in.relative.keys.head(b, h);
  head.dropout = in.dropout;
  head.plane = static_cast<std::uint32_t>(b * in.q.heads + h);
  return head;
}

// L and D of the queries of a tile. Those of a dilated head are not contiguous, so that they are
// copied to and from `room`.
class LaneValues {
 public:
  LaneValues(const SparseHead& head, const QueryTile& tile) : head_(head), tile_(tile) {}
  const float* read(const float* plane) {
    if (head_.dilation == 1) return plane + tile_.first;
    for (std::size_t i = 0; i < tile_.lanes; ++i) room_[i] = plane[row(i)];
    return room_.data();
  }
  // Where to write; null if there is no plane.
  float* target(float* plane) {
    if (plane == nullptr) return nullptr;
    return head_.dilation == 1 ? plane + tile_.first : room_.data();
  }
  void write(float* plane) const {
    if (plane == nullptr || head_.dilation == 1) return;
    for (std::size_t i = 0; i < tile_.lanes; ++i) plane[row(i)] = room_[i];
  }

 private:
  std::size_t row(std::size_t lane) const {
    return head_.first_query + (tile_.first + lane) * head_.dilation;
  }
  const SparseHead& head_;
  const QueryTile& tile_;
  std::array<float, kQueryBlock> room_{};
};

Work forward_work(const AttentionShape& s, const TileCounts& c, std::size_t terms) {
  Work work;
  work.maccs = c.pairs * (s.d + s.e) + c.table * s.d;
  work[Kind::kMatmul] = c.queries * s.d * (c.table > 0 ? 2 : 1);
  work[Kind::kSoftmax] = 4 * c.pairs + (s.e + 3) * (c.query_tiles + c.queries);
  if (terms > 0) work[Kind::kAdd] = terms * c.pairs;
  if (s.dropout) work[Kind::kDropout] = c.pairs;
  work.bytes[static_cast<std::size_t>(Kind::kMatmul)] =
      4 * s.batch * (s.heads * s.m * (s.d + s.e + 1) + s.kv_heads * s.n * (s.d + s.e));
  return work;
}

Work backward_work(const AttentionShape& s, const TileCounts& c, std::size_t terms) {
  Work work;
  work.maccs = c.pairs * (3 * s.d + 2 * s.e) + c.queries * s.e + 3 * c.table * s.d;
  work[Kind::kMatmul] = c.queries * (s.d + s.e + 1 + (c.table > 0 ? s.d : 0));
  work[Kind::kSoftmax] = 4 * c.pairs;
  work[Kind::kAdd] = c.partials * (s.d + s.e) + 2 * terms * c.pairs +
                     (c.table > 0 ? c.queries * s.d : 0) + c.relative_partials;
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

class Backward {
 public:
  Backward(const BlockPattern& pattern, const SparseInputs& in, ConstHeads dy, const float* lse,
           const SparseResults& results, Arena& arena)
      : pattern_(pattern),
        in_(in),
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

  static std::size_t bytes(const AttentionShape& s, const RelativeSizes& relative) {
    const std::size_t chunks = query_chunks(s);
    const std::size_t planes = s.batch * s.heads;
    const std::size_t table = planes * relative.table * tile_pitch(s.d);
    return Arena::bytes_for(planes * s.m) + Arena::bytes_for(sum_floats(s)) +
           Arena::bytes_for<Span>(s.batch * s.kv_heads * chunks) +
           Arena::bytes_for(chunks == 1 ? 0 : chunks * table) +
           Arena::bytes_for((chunks - 1) * planes * s.n * relative.keys);
  }

  std::size_t tasks() const { return shape().batch * shape().kv_heads * chunks_; }

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

  // grad.k and grad.v += the partial sums of the rows [begin, end) of a key head, in order.
  void reduce(std::size_t b, std::size_t kv, Span rows, TileCounts& counts) const {
    for (const bool keys : {true, false}) {
      const Matrix to = (keys ? results_.dk : results_.dv).head(b, kv);
      const Matrix first = sum(b, kv, 0, keys);
      for (std::size_t j = rows.begin; j < rows.end && first.data != to.data; ++j) {
        std::copy_n(first.row_data(j), to.cols, to.row_data(j));
      }
      for (std::size_t chunk = 1; chunk < chunks_; ++chunk) {
        const Span span = spans_[(b * shape().kv_heads + kv) * chunks_ + chunk];
        const Matrix from = sum(b, kv, chunk, keys);
        const std::size_t last = std::min(rows.end, span.end);
        for (std::size_t j = std::max(rows.begin, span.begin); j < last; ++j) {
          for (std::size_t c = 0; c < to.cols; ++c) to.row_data(j)[c] += from.row_data(j)[c];
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
    const SparseHead head = sparse_head(pattern_, in_, b, h, tile.phase);
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

// Ranges for counting, which has no arena; kept from call to call.
std::span<KeyRange> counting_room(std::size_t most) {
  thread_local std::vector<KeyRange> room;
  if (room.size() < most) room.resize(most);
  return room;
}

TileCounts count_head(const BlockPattern& pattern, std::size_t b, std::size_t h,
                      const RelativeSizes& relative) {
  const std::span<KeyRange> room = counting_room(pattern.most_ranges());
  TileCounts counts;
  for (std::size_t t = 0; t < pattern.tiles(b, h); ++t) {
    const PatternTile tile = pattern.tile(b, h, t, room);
    if (tile.tile.lanes == 0) continue;
    SparseHead head = geometry(pattern, b, h, tile.phase);
    head.relative.bucket = relative.bucket;
    head.relative.table = ConstMatrix(nullptr, relative.table, pattern.shape().d);
    count_query_tile(head, tile.tile, counts);
  }
  return counts;
}

TileCounts count(const BlockPattern& pattern, const RelativeSizes& relative) {
  const AttentionShape& s = pattern.shape();
  const bool equal_sequences = s.key_lengths.empty() && s.globals.empty();
  TileCounts counts;
  for (std::size_t b = 0; b < (equal_sequences ? 1 : s.batch); ++b) {
    for (std::size_t h = 0; h < (pattern.equal_heads() ? 1 : s.heads); ++h) {
      const std::size_t times =
          (equal_sequences ? s.batch : 1) * (pattern.equal_heads() ? s.heads : 1);
      counts += times * count_head(pattern, b, h, relative);
    }
  }
  return counts;
}

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
      (chunks - 1) * s.batch * s.heads * (relative.table * s.d + s.n * relative.keys);
}

std::size_t terms_of(const RelativeSizes& relative) {
  return (relative.table > 0 ? 1U : 0U) + (relative.keys > 0 ? 1U : 0U);
}

}  // namespace

std::size_t FullPattern::tiles(std::size_t b, std::size_t /*h*/) const {
  return divide_up(queries(b), kQueryBlock);
}

PatternTile FullPattern::tile(std::size_t b, std::size_t /*h*/, std::size_t t,
                              std::span<KeyRange> room) const {
  PatternTile tile;
  tile.tile.first = t * kQueryBlock;
  tile.tile.lanes = std::min(kQueryBlock, queries(b) - tile.tile.first);
  const std::size_t last = tile.tile.first + tile.tile.lanes + offset();
  room[0] = {0, shape().causal ? std::min(last, keys(b)) : keys(b),
             shape().causal ? KeyRange::Kind::kBanded : KeyRange::Kind::kWhole};
  tile.tile.ranges = room.first(1);
  return tile;
}

SparseInputs SparseInputs::of(const AttentionInputs& in) {
  SparseInputs s;
  s.q = in.q;
  s.k = in.k;
  s.v = in.v;
  s.scale = 1.0F / std::sqrt(static_cast<float>(in.q.d));
  s.dropout = in.dropout;
  return s;
}

AttentionCost sparse_cost(const BlockPattern& pattern, const RelativeSizes& relative) {
  const AttentionShape& s = pattern.shape();
  TileCounts counts = count(pattern, relative);
  AttentionCost cost;
  cost.forward = forward_work(s, counts, terms_of(relative));
  count_partials(pattern, relative, counts);
  cost.backward = backward_work(s, counts, terms_of(relative));
  cost.saved = s.batch * s.heads * s.m;
  cost.forward_scratch = Rooms::bytes(pattern, sparse_forward_scratch(s.d, s.e, relative.table));
  cost.backward_scratch = Rooms::bytes(pattern, sparse_backward_scratch(s.d, s.e, relative.table)) +
                          Backward::bytes(s, relative);
  return cost;
}

void sparse_forward(const BlockPattern& pattern, const SparseInputs& in, Heads y,
                    std::span<float> saved, Arena& arena) {
  const AttentionShape& s = pattern.shape();
  const Rooms rooms(pattern, sparse_forward_scratch(s.d, s.e, in.relative.table.n), arena);
  const std::size_t groups =
      divide_up(std::max<std::size_t>(1, most_tiles(pattern)), kTilesPerTask);
  parallel_for(groups * s.batch * s.heads, [&](std::size_t task, std::size_t worker) {
    // One head after the other, so that its keys stay in the cache; within a head the last queries
    // start first, because with a causal mask they can see the most.
    const std::size_t group = groups - 1 - task % groups;
    const std::size_t b = task / groups / s.heads;
    const std::size_t h = task / groups % s.heads;
    const Room room = rooms.at(worker);
    float* plane = saved.empty() ? nullptr : saved.data() + task / groups * s.m;
    const std::size_t last = std::min((group + 1) * kTilesPerTask, pattern.tiles(b, h));
    for (std::size_t t = group * kTilesPerTask; t < last; ++t) {
      const PatternTile tile = pattern.tile(b, h, t, room.ranges);
      if (tile.tile.lanes == 0) continue;
      const SparseHead head = sparse_head(pattern, in, b, h, tile.phase);
      LaneValues lse(head, tile.tile);
      sparse_forward(head, tile.tile, every(y.head(b, h), head.first_query, head.dilation),
                     lse.target(plane), room.memory, rooms.counts(worker));
      lse.write(plane);
    }
    if (group > 0) return;
    const Matrix rows = y.head(b, h);
    for (std::size_t i = pattern.queries(b); i < s.m; ++i) {
      std::ranges::fill(rows.row(i), 0.0F);
      if (plane != nullptr) plane[i] = std::numeric_limits<float>::infinity();
    }
  });
  Meter::report(forward_work(s, rooms.total(), in.relative.terms()));
}

void sparse_backward(const BlockPattern& pattern, const SparseInputs& in, ConstHeads y,
                     ConstHeads dy, std::span<const float> saved, const SparseResults& results,
                     Arena& arena) {
  const AttentionShape& s = pattern.shape();
  const Rooms rooms(pattern, sparse_backward_scratch(s.d, s.e, in.relative.table.n), arena);
  const Backward backward(pattern, in, dy, saved.data(), results, arena);
  parallel_for(s.batch * s.heads,
               [&](std::size_t plane, std::size_t) { backward.run_delta(y, plane); });
  parallel_for(backward.tasks(), [&](std::size_t task, std::size_t worker) {
    backward.run(task, rooms.at(worker), rooms.counts(worker));
  });
  if (backward.reduces()) {
    constexpr std::size_t kRows = 256;
    const std::size_t pieces = divide_up(s.n, kRows);
    parallel_for(pieces * s.batch * s.kv_heads, [&](std::size_t task, std::size_t worker) {
      const std::size_t first = task % pieces * kRows;
      backward.reduce(task / pieces / s.kv_heads, task / pieces % s.kv_heads,
                      {first, std::min(s.n, first + kRows)}, rooms.counts(worker));
    });
  }
  if (in.relative.terms() > 0) {
    parallel_for(s.batch * s.heads, [&](std::size_t plane, std::size_t worker) {
      backward.reduce_relative(plane, rooms.counts(worker));
    });
  }
  Meter::report(backward_work(s, rooms.total(), in.relative.terms()));
}

}  // namespace longspan
