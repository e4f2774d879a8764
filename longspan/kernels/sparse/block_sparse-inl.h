// What forward and backward over lists of keys share: the part of a tile that a group of lanes
// sees, masks, relative terms and dropout.

#if defined(LONGSPAN_KERNELS_BLOCK_SPARSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGSPAN_KERNELS_BLOCK_SPARSE_INL_H_
#undef LONGSPAN_KERNELS_BLOCK_SPARSE_INL_H_
#else
#define LONGSPAN_KERNELS_BLOCK_SPARSE_INL_H_
#endif

#include "longspan/kernels/sparse/block_sparse.h"
#include "longspan/kernels/tiled/tiled_attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {

// The queries [query, query + lanes) against the keys of a range of at most kKeyBlock.
struct SparseTile {
  std::size_t query;
  std::size_t lanes;
  KeyRange keys;
};

// Calls f(tile, next) for the tiles of a tile's list, where `next` are the keys of the one after
// it, if any; a banded tile that everybody sees is whole.
template <class F>
HWY_INLINE void for_each_tile(const SparseHead& head, const QueryTile& tile, F f) {
  SparseTile waiting{tile.first, tile.lanes, {}};
  for (const KeyRange& range : tile.ranges) {
    for_each_key_tile(range, [&](KeyRange keys) {
      if (keys.kind == KeyRange::Kind::kBanded &&
          head.seen_begin(tile.first + tile.lanes - 1, keys) == 0 &&
          head.seen_end(tile.first, keys) == keys.size()) {
        keys.kind = KeyRange::Kind::kWhole;
      }
      if (waiting.keys.size() > 0) f(waiting, keys);
      waiting.keys = keys;
    });
  }
  if (waiting.keys.size() > 0) f(waiting, KeyRange{});
}

// Asks for rows of x that a later tile needs: rows far apart defeat the prefetcher of the CPU.
HWY_INLINE void prefetch_keys(ConstMatrix x, const KeyRange& keys) {
  if (x.stride == x.cols || keys.kind == KeyRange::Kind::kGathered) return;
  prefetch_rows<kKeyBlock>(x.slice_rows(0, keys.end), keys.begin, 0, 1);
}

// Keys [begin, end) of a tile.
struct Rows {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t count() const { return end - begin; }
};

// What some query of a group of lanes sees: both ends only grow with the query.
template <int kVectors>
HWY_INLINE Rows group_rows(const SparseHead& head, const SparseTile& t, std::size_t column) {
  const std::size_t last = std::min(column + kVectors * kVectorLanes, t.lanes);
  if (last <= column) return {};
  const Rows rows{head.seen_begin(t.query + column, t.keys),
                  head.seen_end(t.query + last - 1, t.keys)};
  return rows.begin < rows.end ? rows : Rows{};
}

// S = −∞ where a lane is outside its band.
template <int kVectors>
HWY_INLINE void hide_outside(const SparseHead& head, const SparseTile& t, Rows rows,
                             std::size_t column, float* s) {
  const DF d;
  const hn::RebindToSigned<DF> di;
  const VF hidden = hn::Set(d, kMinusInfinity);
  const std::size_t last = std::min(column + kVectors * kVectorLanes, t.lanes) - 1;
  const std::size_t all_begin = head.seen_begin(t.query + last, t.keys);
  const std::size_t all_end = head.seen_end(t.query + column, t.keys);
  if (all_begin <= rows.begin && all_end >= rows.end) return;
  // Key j of the tile is at distance `first + lane − j`, seen from −after to before.
  const auto first =
      static_cast<std::int32_t>(head.position(t.query) - static_cast<std::ptrdiff_t>(t.keys.begin));
  constexpr std::size_t kFar = 1U << 30U;
  const auto before = hn::Set(di, static_cast<std::int32_t>(std::min(head.before, kFar)));
  const auto after = hn::Set(di, -static_cast<std::int32_t>(std::min(head.after, kFar)));
  for (int v = 0; v < kVectors; ++v) {
    const std::size_t lane = column + static_cast<std::size_t>(v) * kVectorLanes;
    const auto from = hn::Iota(di, first + static_cast<std::int32_t>(lane));
    for (std::size_t j = rows.begin; j < rows.end; ++j) {
      if (j >= all_begin && j < all_end) continue;
      const auto distance = hn::Sub(from, hn::Set(di, static_cast<std::int32_t>(j)));
      const auto out = hn::Or(hn::Gt(distance, before), hn::Lt(distance, after));
      float* p = s + j * kPitch + lane;
      hn::StoreU(hn::IfThenElse(hn::RebindMask(d, out), hidden, hn::LoadU(d, p)), d, p);
    }
  }
}

// Where the keys and values of a tile can be read.
struct TileKeys {
  Left k, v;
};

inline Left gather_dense(ConstMatrix x, const std::uint32_t* index, std::size_t count,
                         float* copy) {
  const std::size_t stride = tile_pitch(x.cols);
  for (std::size_t j = 0; j < count; ++j) {
    std::memcpy(copy + j * stride, x.row_data(index[j]), x.cols * sizeof(float));
  }
  return {copy, stride};
}

inline TileKeys tile_keys(const SparseHead& head, const KeyRange& keys, float* k_copy,
                          float* v_copy) {
  if (keys.kind == KeyRange::Kind::kGathered) {
    const std::uint32_t* index = head.gathered + keys.begin;
    return {gather_dense(head.all_k, index, keys.size(), k_copy),
            gather_dense(head.all_v, index, keys.size(), v_copy)};
  }
  return {dense_rows(head.k, keys.begin, keys.size(), k_copy),
          dense_rows(head.v, keys.begin, keys.size(), v_copy)};
}

// Rows of T that the tile's distances can ask for.
inline Rows table_rows(const SparseHead& head, const QueryTile& tile) {
  const DistanceRange r = distances(head, tile);
  if (head.relative.table.rows == 0 || r.low > r.high) return {};
  return {static_cast<std::size_t>(head.relative.bucket[r.low]),
          static_cast<std::size_t>(head.relative.bucket[r.high]) + 1};
}

// s·log₂e·T·qrᵀ for the buckets [rows.begin, rows.end): [bucket][kPitch].
inline void relative_scores(const SparseHead& head, const QueryTile& tile, Rows rows, float* qrt,
                            float* scores) {
  if (rows.count() == 0) return;
  const RelativeTerms& r = head.relative;
  pack_queries(r.q.slice_rows(tile.first, tile.lanes), head.scale * kLog2E, qrt);
  tile_gemm({r.table.row_data(rows.begin), r.table.stride}, {qrt, kPitch}, rows.count(),
            r.table.cols, tile_width(tile.lanes), {scores + rows.begin * kPitch, kPitch});
}

// s·log₂e·K·Tᵀ of a tile of keys, in bands: [key][kBandPitch], each from its first bucket on.
inline void band_scores(const SparseHead& head, const SparseTile& t, const Left& k, float* band) {
  const ConstMatrix& columns = head.relative.columns;
  for_each_band(
      head, {t.query, t.lanes, {}}, t.keys, [&](std::size_t key, std::size_t keys, const Band& b) {
        tile_gemm({k.data + key * k.stride, k.stride}, {columns.data + b.first, columns.stride},
                  keys, columns.rows, tile_width(b.count), {band + key * kBandPitch, kBandPitch});
      });
}

// Where bucket 0 of key j of the tile would lie.
template <class T>
HWY_INLINE T* band_row(const SparseHead& head, const SparseTile& t, std::size_t j, T* band) {
  const std::size_t first = j / kBandKeys * kBandKeys;
  const std::size_t keys = std::min(kBandKeys, t.keys.size() - first);
  return band + j * kBandPitch -
         band_of(head, {t.query, t.lanes, {}}, t.keys.begin + first, keys).first;
}

// The relative terms of a tile: T·qrᵀ and K·Tᵀ.
struct RelativeScores {
  const float* table = nullptr;  // [bucket][kPitch]
  const float* band = nullptr;   // [key][kBandPitch]
};

// The buckets of one key and a vector of queries.
struct Buckets {
  const std::int32_t* at;
  std::size_t stride;  // between those of two queries
  bool equal() const { return at[0] == at[(kVectorLanes - 1) * stride]; }
  // One apart: the buckets are neighbours in memory.
  bool consecutive() const { return stride == 1 && spread(1); }
  bool two_apart() const { return stride == 2 && spread(2); }
  bool spread(std::int32_t step) const {
    return at[(kVectorLanes - 1) * stride] - at[0] ==
           step * (static_cast<std::int32_t>(kVectorLanes) - 1);
  }
  HWY_INLINE hn::Vec<hn::RebindToSigned<DF>> load() const {
    const hn::RebindToSigned<DF> di;
    if (stride == 1) return hn::LoadU(di, at);
    return hn::GatherIndex(
        di, at, hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<std::int32_t>(stride))));
  }
};

inline Buckets buckets_at(const SparseHead& head, const SparseTile& t, std::size_t key,
                          std::size_t lane) {
  return {head.relative.bucket + head.position(t.query + lane) -
              static_cast<std::ptrdiff_t>(t.keys.begin + key),
          head.stride};
}

// Lane k of row k·kStep from p on; of kLanes < kVectorLanes rows, again and again. Joining two halves
// is faster than to gather lanes.
template <std::size_t kStep, std::size_t kLanes = kVectorLanes>
HWY_INLINE VF diagonal(const float* p) {
  const DF d;
  if constexpr (kLanes == 1) {
    return hn::LoadU(d, p);
  } else {
#if HWY_TARGET != HWY_SCALAR
    const hn::RepartitionToWide<DF> pairs;
    const VF low = diagonal<kStep, kLanes / 2>(p);
    const VF high = diagonal<kStep, kLanes / 2>(p + kLanes / 2 * kStep * kPitch);
    if constexpr (kLanes == 2) return hn::OddEven(high, low);
    if constexpr (kLanes == 4) {
      return hn::BitCast(d, hn::OddEven(hn::BitCast(pairs, high), hn::BitCast(pairs, low)));
    }
    if constexpr (kLanes == 8 && kVectorLanes == 16) return hn::OddEvenBlocks(high, low);
    if constexpr (kLanes >= 8) return hn::ConcatUpperLower(d, high, low);
#endif
  }
}

// T_b·qr_i for a vector of lanes from [bucket][kPitch].
HWY_INLINE VF table_term(const Buckets& b, const float* scores, std::size_t lane) {
  const DF d;
  const hn::RebindToSigned<DF> di;
  const float* first = scores + static_cast<std::size_t>(*b.at) * kPitch + lane;
  if (b.equal()) return hn::LoadU(d, first);
  if (b.consecutive()) return diagonal<1>(first);
  if (b.two_apart()) return diagonal<2>(first);
  const auto row = hn::Mul(b.load(), hn::Set(di, static_cast<std::int32_t>(kPitch)));
  return hn::GatherIndex(d, scores, hn::Add(row, hn::Iota(di, static_cast<std::int32_t>(lane))));
}

HWY_INLINE VF key_term(const Buckets& b, const float* row) {
  const DF d;
  if (b.consecutive()) return hn::LoadU(d, row + *b.at);
  if (b.equal()) return hn::Set(d, row[*b.at]);
  return hn::GatherIndex(d, row, b.load());
}

// S += the relative terms of a group of lanes.
template <int kVectors>
HWY_INLINE void add_relative(const SparseHead& head, const SparseTile& t, Rows rows,
                             std::size_t column, const RelativeScores& scores, float* s) {
  const DF d;
  const bool bands = head.relative.bands(t.keys);
  for (std::size_t j = rows.begin; j < rows.end; ++j) {
    const float* band = bands ? band_row(head, t, j, scores.band) : nullptr;
    for (int v = 0; v < kVectors; ++v) {
      const std::size_t lane = column + static_cast<std::size_t>(v) * kVectorLanes;
      const Buckets b = buckets_at(head, t, j, lane);
      VF sum = hn::LoadU(d, s + j * kPitch + lane);
      if (head.relative.table.rows > 0) sum = hn::Add(sum, table_term(b, scores.table, lane));
      if (head.relative.keys.rows > 0) {
        sum = hn::Add(sum, key_term(b, head.relative.keys.row_data(t.keys.begin + j)));
      }
      if (bands) sum = hn::Add(sum, key_term(b, band));
      hn::StoreU(sum, d, s + j * kPitch + lane);
    }
  }
}

// Calls use(offset, factor) for each vector of the keys `rows` of a group of lanes, where the
// dropout factor belongs to element `offset` of the scores. Four neighbouring keys share a block.
template <int kVectors, class Use>
HWY_INLINE void for_each_sparse_dropout(const SparseHead& head, const SparseTile& t, Rows rows,
                                        std::size_t column, Use use) {
  const DF d;
  const DU du;
  const VU threshold = hn::Set(du, head.dropout.threshold());
  const VF scale = hn::Set(d, head.dropout.scale());
  const bool gathered = t.keys.kind == KeyRange::Kind::kGathered;
  for (int v = 0; v < kVectors; ++v) {
    const std::size_t lane = column + static_cast<std::size_t>(v) * kVectorLanes;
    const VU query = hn::Add(hn::Set(du, head.first_query),
                             hn::Mul(hn::Iota(du, static_cast<std::uint32_t>(t.query + lane)),
                                     hn::Set(du, head.dilation)));
    VU c0 = query, c1 = query, c2 = query, c3 = query;
    std::uint32_t drawn = ~std::uint32_t{0};
    for (std::size_t j = rows.begin; j < rows.end; ++j) {
      const std::size_t row = t.keys.begin + j;
      const std::uint32_t key =
          gathered ? head.gathered[row]
                   : head.first_key + head.dilation * static_cast<std::uint32_t>(row);
      if (key / 4 != drawn) {
        drawn = key / 4;
        c0 = query;
        c1 = hn::Set(du, drawn);
        c2 = hn::Set(du, head.plane);
        c3 = hn::Zero(du);
        philox_lanes(head.dropout.key, c0, c1, c2, c3);
      }
      const VU bits = key % 4 == 0 ? c0 : key % 4 == 1 ? c1 : key % 4 == 2 ? c2 : c3;
      const auto dropped = hn::RebindMask(d, hn::Lt(bits, threshold));
      use(j * kPitch + lane, hn::IfThenZeroElse(dropped, scale));
    }
  }
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // LONGSPAN_KERNELS_BLOCK_SPARSE_INL_H_
