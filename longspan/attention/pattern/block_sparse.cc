#include "longspan/attention/pattern/block_sparse.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "longspan/attention/pattern/block_sparse_run.h"
#include "longspan/base/thread_kept.h"
#include "longspan/kernels/rows/vector.h"

namespace longspan {

namespace detail {

SparseHead geometry(const BlockPattern& pattern, std::size_t b, std::size_t h,
                    const PatternTile& tile) {
  const std::size_t phase = tile.phase;
  const std::size_t step = pattern.dilation(h);
  const std::size_t offset = pattern.offset();
  SparseHead head;
  head.dilation = static_cast<std::uint32_t>(step);
  head.first_key = static_cast<std::uint32_t>(phase);
  // The first query at or after position `offset` that belongs to the phase.
  const std::size_t position = offset + (phase + step - offset % step) % step;
  head.first_query = static_cast<std::uint32_t>(position - offset);
  head.offset = static_cast<std::ptrdiff_t>(position / step) + tile.shift;
  head.before = pattern.before();
  head.after = pattern.after();
  head.stride = pattern.stride();
  head.gathered = pattern.gathered(b);
  return head;
}

KeyPlanes::KeyPlanes(const BlockPattern& pattern, const SparseInputs& in, Arena& arena)
    : in_(in), most_(at_a_time(pattern)), memory_(arena.take(most_ * floats(pattern))) {}

std::size_t KeyPlanes::bytes(const BlockPattern& pattern) {
  return Arena::bytes_for(at_a_time(pattern) * floats(pattern));
}

std::size_t KeyPlanes::floats(const BlockPattern& pattern) {
  constexpr std::size_t kLeastQueries = 4 * kQueryBlock;
  const AttentionShape& s = pattern.shape();
  const bool copies = pattern.rereads() && s.kv_heads > 1 && s.m >= kLeastQueries;
  return copies ? s.n * (s.d + s.e) : 0;
}

std::size_t KeyPlanes::at_a_time(const BlockPattern& pattern) {
  const std::size_t planes = pattern.shape().batch * pattern.shape().kv_heads;
  return floats(pattern) > 0 ? std::min(planes, workers()) : planes;
}

void KeyPlanes::fetch(std::size_t first, std::size_t count) {
  first_ = first;
  if (memory_.empty()) return;
  constexpr std::size_t kRows = 64;
  parallel_ranges(in_.k.n, kRows, [&](std::size_t begin, std::size_t end) {
    for (std::size_t plane = first; plane < first + count; ++plane) {
      const std::size_t b = plane / in_.k.heads;
      const std::size_t h = plane % in_.k.heads;
      float* to = memory_.data() + (plane - first) * in_.k.n * (in_.k.d + in_.v.d);
      copy_rows(in_.k.head(b, h), begin, end, to + begin * in_.k.d);
      copy_rows(in_.v.head(b, h), begin, end, to + in_.k.n * in_.k.d + begin * in_.v.d);
    }
  });
}

ConstMatrix KeyPlanes::head(const ConstHeads& x, std::size_t plane, std::size_t before) const {
  if (memory_.empty()) return x.head(plane / x.heads, plane % x.heads);
  const float* own = memory_.data() + (plane - first_) * x.n * (in_.k.d + in_.v.d);
  return {own + before * x.n, x.n, x.d};
}

SparseHead sparse_head(const BlockPattern& pattern, const SparseInputs& in, const KeyPlanes& keys,
                       std::size_t b, std::size_t h, const PatternTile& tile) {
  const std::size_t kv_plane = b * in.k.heads + h / (in.q.heads / in.k.heads);
  SparseHead head = geometry(pattern, b, h, tile);
  head.q = every(in.q.head(b, h), head.first_query, head.dilation);
  head.all_k = keys.k(kv_plane);
  head.all_v = keys.v(kv_plane);
  head.k = every(head.all_k, tile.phase, head.dilation);
  head.v = every(head.all_v, tile.phase, head.dilation);
  head.scale = in.scale;
  head.relative.bucket = in.relative.bucket;
  if (in.relative.table.n > 0) {
    head.relative.q = in.relative.q.head(b, h);
    head.relative.table = in.relative.table.head(b, h);
  }
  if (in.relative.keys.n > 0) head.relative.keys = in.relative.keys.head(b, h);
  head.relative.columns = in.relative.columns;
  head.dropout = in.dropout;
  head.plane = static_cast<std::uint32_t>(b * in.q.heads + h);
  return head;
}

std::span<KeyRange> counting_room(std::size_t most) {
  static const ThreadKept<std::vector<KeyRange>> kept;
  std::vector<KeyRange>& room = kept();
  if (room.size() < most) room.resize(most);
  return room;
}

}  // namespace detail

using namespace detail;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::size_t kTilesPerTask = 8;

std::size_t most_tiles(const BlockPattern& pattern) {
  const AttentionShape& s = pattern.shape();
  std::size_t most = 0;
  for (std::size_t b = 0; b < s.batch; ++b) {
    for (std::size_t h = 0; h < s.heads; ++h) most = std::max(most, pattern.tiles(b, h));
  }
  return most;
}

Work forward_work(const AttentionShape& s, const TileCounts& c, const RelativeCounts& relative) {
  Work work;
  work.maccs = c.pairs * (s.d + s.e) + c.table * relative.width;
  work[Kind::kMatmul] = c.queries * (s.d + (c.table > 0 ? relative.width : 0));
  work[Kind::kSoftmax] = 4 * c.pairs + (s.e + 3) * (c.query_tiles + c.queries);
  if (relative.terms > 0) work[Kind::kAdd] = relative.terms * c.keys;
  if (s.dropout) work[Kind::kDropout] = c.pairs;
  work.bytes[static_cast<std::size_t>(Kind::kMatmul)] =
      4 * s.batch * (s.heads * s.m * (s.d + s.e + 1) + s.kv_heads * s.n * (s.d + s.e));
  return work;
}

TileCounts count_head(const BlockPattern& pattern, std::size_t b, std::size_t h,
                      const RelativeSizes& relative) {
  const std::span<KeyRange> room = counting_room(pattern.most_ranges());
  TileCounts counts;
  const std::size_t tiles = pattern.tiles(b, h);
  for (std::size_t t = 0; t < tiles; ++t) {
    const PatternTile tile = pattern.tile(b, h, t, room);
    if (tile.tile.lanes == 0) continue;
    SparseHead head = geometry(pattern, b, h, tile);
    head.relative.bucket = relative.bucket;
    head.relative.table = ConstMatrix(nullptr, relative.table, pattern.shape().d);
    head.relative.columns = ConstMatrix(nullptr, relative.columns ? 1 : 0, relative.table);
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
  // Distances are told apart pair of tiles by pair of tiles, which for more takes minutes.
  constexpr std::size_t kMostRelativeKeys = std::size_t{1} << 17U;
  const AttentionShape& s = pattern.shape();
  require((relative.table == 0 && relative.keys == 0) || s.n <= kMostRelativeKeys,
          "[attention] {} keys with relative positions; need at most {}, or another mechanism", s.n,
          kMostRelativeKeys);
  const TileCounts counts = count(pattern, relative);
  AttentionCost cost;
  cost.forward = forward_work(s, counts, RelativeCounts::of(relative, s));
  cost.saved = s.batch * s.heads * s.m;
  cost.forward_scratch =
      Rooms::bytes(pattern, sparse_forward_scratch(s.d, s.e, relative.table, relative.columns)) +
      KeyPlanes::bytes(pattern);
  add_backward_cost(pattern, relative, counts, cost);
  return cost;
}

void sparse_forward(const BlockPattern& pattern, const SparseInputs& in, Heads y,
                    std::span<float> saved, Arena& arena) {
  const AttentionShape& s = pattern.shape();
  const Rooms rooms(
      pattern, sparse_forward_scratch(s.d, s.e, in.relative.table.n, in.relative.columns.rows > 0),
      arena);
  const std::size_t groups =
      divide_up(std::max<std::size_t>(1, most_tiles(pattern)), kTilesPerTask);
  const auto run = [&](std::size_t plane, std::size_t group, const KeyPlanes& keys,
                       std::size_t worker) {
    const std::size_t b = plane / s.heads;
    const std::size_t h = plane % s.heads;
    const Room room = rooms.at(worker);
    float* levels = saved.empty() ? nullptr : saved.data() + plane * s.m;
    const std::size_t last = std::min((group + 1) * kTilesPerTask, pattern.tiles(b, h));
    for (std::size_t t = group * kTilesPerTask; t < last; ++t) {
      const PatternTile tile = pattern.tile(b, h, t, room.ranges);
      if (tile.tile.lanes == 0) continue;
      const SparseHead head = sparse_head(pattern, in, keys, b, h, tile);
      LaneValues lse(head, tile.tile);
      sparse_forward(head, tile.tile, every(y.head(b, h), head.first_query, head.dilation),
                     lse.target(levels), room.memory, rooms.counts(worker));
      lse.write(levels);
    }
    if (group > 0) return;
    const Matrix rows = y.head(b, h);
    for (std::size_t i = pattern.queries(b); i < s.m; ++i) {
      std::ranges::fill(rows.row(i), 0.0F);
      if (levels != nullptr) levels[i] = std::numeric_limits<float>::infinity();
    }
  };
  const std::size_t ratio = s.heads / s.kv_heads;
  KeyPlanes keys(pattern, in, arena);
  keys.for_each([&](std::size_t first, std::size_t count) {
    parallel_for(groups * count * ratio, [&](std::size_t task, std::size_t worker) {
      // One head after the other, so that its keys stay in the cache; within a head the last
      // queries start first, because with a causal mask they can see the most.
      run(first * ratio + task / groups, groups - 1 - task % groups, keys, worker);
    });
  });
  report(forward_work(s, rooms.total(), RelativeCounts::of(in.relative)));
}

}  // namespace longspan
