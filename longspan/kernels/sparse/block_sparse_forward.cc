#include "longspan/kernels/sparse/block_sparse.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/sparse/block_sparse_forward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "longspan/kernels/sparse/block_sparse-inl.h"
// clang-format on

#ifndef LONGSPAN_KERNELS_BLOCK_SPARSE_FORWARD_CC_
#define LONGSPAN_KERNELS_BLOCK_SPARSE_FORWARD_CC_
namespace longspan {

// The parts of the scratch, in floats.
struct SparseForwardLayout {
  static constexpr std::size_t kPitch = tile_pitch(kQueryBlock);
  std::size_t scores, factor, keys, values, q, o, max, sum, qr, relative, band, total;

  SparseForwardLayout(std::size_t d, std::size_t e, std::size_t buckets, bool bands) {
    std::size_t at = 0;
    auto take = [&at](std::size_t floats) { return (at += floats) - floats; };
    scores = take(kKeyBlock * kPitch);
    factor = take(kPitch);
    keys = take(kKeyBlock * tile_pitch(d));
    values = take(kKeyBlock * tile_pitch(e));
    q = take(d * kPitch);
    o = take(e * kPitch);
    max = take(kPitch);
    sum = take(kPitch);
    qr = take(buckets > 0 ? d * kPitch : 0);
    relative = take(buckets * kPitch);
    band = take(bands ? kKeyBlock * kBandPitch : 0);
    total = at;
  }
};

}  // namespace longspan
#endif

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {
namespace {

struct SparseScratch {
  QueryState state;
  float* scores;
  float* factor;
  RelativeScores relative;
  float* band;
};

// One tile of queries against one tile of keys.
void forward_sparse_tile(const SparseHead& head, const SparseTile& t, const TileKeys& keys,
                         const KeyRange& next, const SparseScratch& scratch) {
  const std::size_t width = tile_width(t.lanes);
  const QueryState& state = scratch.state;
  float* s = scratch.scores;
  prefetch_keys(head.k, next);
  if (head.relative.bands(t.keys)) band_scores(head, t, keys.k, scratch.band);
  for_each_group(width, [&](std::size_t column, auto vectors) HWY_ATTR {
    constexpr int kVectors = vectors();
    const Rows rows = group_rows<kVectors>(head, t, column);
    if (rows.count() == 0) return;
    float* from = s + rows.begin * kPitch;
    tile_gemm_group<kVectors>({keys.k.data + rows.begin * keys.k.stride, keys.k.stride},
                              {state.q, kPitch}, rows.count(), head.q.cols, {from, kPitch}, column);
    if (head.relative.active(t.keys)) {
      add_relative<kVectors>(head, t, rows, column, scratch.relative, s);
    }
    hide_outside<kVectors>(head, t, rows, column, s);
    online_softmax<kVectors>(from + column, rows.count(), state.max + column, state.sum + column,
                             scratch.factor + column);
    if (head.dropout.active()) {
      for_each_sparse_dropout<kVectors>(head, t, rows, column, [s](std::size_t at, VF f) HWY_ATTR {
        hn::StoreU(hn::Mul(hn::LoadU(DF(), s + at), f), DF(), s + at);
      });
    }
  });
  prefetch_keys(head.v, next);
  for_each_group(width, [&](std::size_t column, auto vectors) HWY_ATTR {
    constexpr int kVectors = vectors();
    const Rows rows = group_rows<kVectors>(head, t, column);
    if (rows.count() == 0) return;
    tile_gemm_group<kVectors>({keys.v.data + rows.begin * keys.v.stride, keys.v.stride, true},
                              {s + rows.begin * kPitch, kPitch}, head.v.cols, rows.count(),
                              {state.o, kPitch, Start::kScale, scratch.factor}, column);
  });
}

}  // namespace

void SparseForward(const SparseHead& head, const QueryTile& tile, Matrix y, float* lse,
                   float* memory, TileCounts& counts) {
  const SparseForwardLayout at(head.q.cols, head.v.cols, head.relative.table.rows,
                               head.relative.bands());
  SparseScratch scratch;
  scratch.state = {memory + at.q, memory + at.o, memory + at.max, memory + at.sum};
  scratch.scores = memory + at.scores;
  scratch.factor = memory + at.factor;
  scratch.band = memory + at.band;
  scratch.relative = {memory + at.relative, scratch.band};
  begin_state(head.q.slice_rows(tile.first, tile.lanes), head.scale, head.v.cols, scratch.state);
  relative_scores(head, tile, table_rows(head, tile), memory + at.qr, memory + at.relative);
  for_each_tile(head, tile, [&](const SparseTile& t, const KeyRange& next) {
    forward_sparse_tile(head, t, tile_keys(head, t.keys, memory + at.keys, memory + at.values),
                        next, scratch);
  });
  finish_state(scratch.state, y.slice_rows(tile.first, tile.lanes), lse);
  count_query_tile(head, tile, counts);
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {

HWY_EXPORT(SparseForward);

std::size_t sparse_forward_scratch(std::size_t d, std::size_t e, std::size_t buckets, bool bands) {
  return SparseForwardLayout(d, e, buckets, bands).total;
}

void sparse_forward(const SparseHead& head, const QueryTile& tile, Matrix y, float* lse,
                    float* scratch, TileCounts& counts) {
  HWY_DYNAMIC_DISPATCH(SparseForward)(head, tile, y, lse, scratch, counts);
}

DistanceRange distances(const SparseHead& head, const QueryTile& tile) {
  DistanceRange r;
  bool any = false;
  for (const KeyRange& range : tile.ranges) {
    if (range.kind == KeyRange::Kind::kGathered) continue;
    const std::size_t begin = head.seen_begin(tile.first, range);
    const std::size_t end = head.seen_end(tile.first + tile.lanes - 1, range);
    if (begin >= end) continue;
    const auto key = static_cast<std::ptrdiff_t>(range.begin);
    const std::ptrdiff_t low =
        head.position(tile.first) - (key + static_cast<std::ptrdiff_t>(end) - 1);
    // Lanes that pad a vector read the table too; their distance is held to that of the last one.
    const std::ptrdiff_t high =
        head.position(tile.first + tile.lanes - 1) - (key + static_cast<std::ptrdiff_t>(begin));
    r = any ? DistanceRange{std::min(r.low, low), std::max(r.high, high)}
            : DistanceRange{low, high};
    any = true;
  }
  return r;
}

void count_query_tile(const SparseHead& head, const QueryTile& tile, TileCounts& counts) {
  counts.queries += tile.lanes;
  const DistanceRange r = distances(head, tile);
  if (head.relative.table.rows > 0 && r.low <= r.high) {
    const std::int32_t* bucket = head.relative.bucket;
    counts.table += tile.lanes * static_cast<std::uint64_t>(bucket[r.high] - bucket[r.low] + 1);
  }
  for (const KeyRange& range : tile.ranges) {
    if (head.relative.bands(range)) {
      for_each_key_tile(range, [&](const KeyRange& keys) {
        for_each_band(head, tile, keys, [&](std::size_t /*key*/, std::size_t rows, const Band& b) {
          counts.table += rows * b.count;
        });
      });
    }
    // Tiles that hold any of the keys [begin, end) of the range.
    const auto tiles = [&](std::size_t begin, std::size_t end) {
      return (range.begin + end - 1) / kKeyBlock - (range.begin + begin) / kKeyBlock + 1;
    };
    if (range.kind != KeyRange::Kind::kBanded) {
      if (range.size() == 0) continue;
      counts.pairs += tile.lanes * range.size();
      counts.keys += range.kind == KeyRange::Kind::kWhole ? tile.lanes * range.size() : 0;
      counts.query_tiles += tile.lanes * tiles(0, range.size());
      continue;
    }
    for (std::size_t i = tile.first; i < tile.first + tile.lanes; ++i) {
      const std::size_t begin = head.seen_begin(i, range);
      const std::size_t end = head.seen_end(i, range);
      if (begin >= end) continue;
      counts.pairs += end - begin;
      counts.keys += end - begin;
      counts.query_tiles += tiles(begin, end);
    }
  }
}

}  // namespace longspan
#endif  // HWY_ONCE
