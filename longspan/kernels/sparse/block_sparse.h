// Attention over lists of keys: the arithmetic of one tile of queries, on the calling thread.
//
// A tile of up to kQueryBlock queries sees a sorted list of ranges of keys that do not overlap, so
// that no key counts twice; the softmax is taken online over their union, with one maximum, as in
// tiled_attention.h. A range is
//
//   whole     every query of the tile sees every key of it
//   banded    the query at position p sees the keys p − before … p + after of it
//   gathered  the keys gathered[begin … end), each seen by every query, without relative terms
//
// Backward stays at the queries: dq of the tile is summed in the cache over its whole list, dk and
// dv are added to rows of the caller's sums. With s = scale,
//
//   dPᵀ = V·(s·dy)ᵀ,  dS = P⊙(dP − s·D),  dV += Pᵀ·dy,  dK += dSᵀ·Q,  dQᵀ += Kᵀ·dSᵀ
//
// Relative terms add s·(qr_i·T_b + k_j·U_b) to the score of (i, j), where b = bucket(p_i − j):
// s·T·qrᵀ is one product per tile of queries, K·Uᵀ is given; rows of T may be narrower than keys.
// Where U is T itself, K·Tᵀ is made tile by tile: kBandKeys keys and kQueryBlock queries are at
// most kBandKeys + kQueryBlock − 1 distances apart, a band of the product.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "longspan/base/random.h"
#include "longspan/base/view.h"
#include "longspan/kernels/tiled/tile_layout.h"
#include "longspan/kernels/tiled/tiled_attention.h"

namespace longspan {

struct KeyRange {
  enum class Kind : std::uint8_t { kWhole, kBanded, kGathered };
  std::size_t begin = 0;
  std::size_t end = 0;
  Kind kind = Kind::kWhole;

  std::size_t size() const { return end - begin; }
  bool operator==(const KeyRange&) const = default;
};

struct QueryTile {
  std::size_t first = 0;  // row of q
  std::size_t lanes = 0;  // at most kQueryBlock
  std::span<const KeyRange> ranges;
};

// Terms of the score that depend on the distance p_i − j.
struct RelativeTerms {
  const std::int32_t* bucket = nullptr;  // of distance 0; never falls as the distance grows
  ConstMatrix q;                         // qr, [m, d′], d′ ≤ d
  ConstMatrix table;                     // T, [buckets, d′]; no rows: no such term
  ConstMatrix keys;                      // s·log₂e·K·Uᵀ, [n, buckets]; no rows: no such term
  // s·log₂e·Tᵀ, [d, buckets] and kTileUnit columns of zeros, where U = T; no rows: no such term.
  // Needs buckets of neighbouring distances to be neighbours or one, and a stride of 1.
  ConstMatrix columns;

  bool active(const KeyRange& keys_of) const {
    return keys_of.kind != KeyRange::Kind::kGathered && (table.rows > 0 || keys.rows > 0);
  }
  bool bands() const { return columns.rows > 0; }
  bool bands(const KeyRange& keys_of) const { return active(keys_of) && bands(); }
  std::size_t buckets() const { return table.rows > 0 ? table.rows : keys.cols; }
};

// One head of one sequence, or every dilation-th token of it.
struct SparseHead {
  ConstMatrix q;  // [m, d]
  ConstMatrix k;  // [n, d]
  ConstMatrix v;  // [n, e]
  float scale = 1.0F;
  std::ptrdiff_t offset = 0;  // the position of query 0 among the keys
  std::size_t stride = 1;     // positions from one query to the next; banded ranges need 1
  std::size_t before = 0;
  std::size_t after = 0;
  // The keys that gathered ranges name, as rows of all_k and all_v (k and v themselves unless they
  // are dilated).
  const std::uint32_t* gathered = nullptr;
  ConstMatrix all_k, all_v;
  RelativeTerms relative;
  Dropout dropout;
  std::uint32_t plane = 0;
  // Row i of q and k are the tokens first_query + i·dilation and first_key + i·dilation.
  std::uint32_t first_query = 0;
  std::uint32_t first_key = 0;
  std::uint32_t dilation = 1;

  // The keys that query i sees of a range, as offsets from its begin.
  std::size_t seen_begin(std::size_t i, const KeyRange& r) const {
    if (r.kind != KeyRange::Kind::kBanded) return 0;
    return clip(position(i) - static_cast<std::ptrdiff_t>(before), r);
  }
  std::size_t seen_end(std::size_t i, const KeyRange& r) const {
    if (r.kind != KeyRange::Kind::kBanded) return r.size();
    return clip(position(i) + static_cast<std::ptrdiff_t>(after) + 1, r);
  }
  std::ptrdiff_t position(std::size_t i) const {
    return static_cast<std::ptrdiff_t>(i * stride) + offset;
  }

 private:
  static std::size_t clip(std::ptrdiff_t key, const KeyRange& r) {
    const auto begin = static_cast<std::ptrdiff_t>(r.begin);
    const auto end = static_cast<std::ptrdiff_t>(r.end);
    return static_cast<std::size_t>((key < begin ? begin : key > end ? end : key) - begin);
  }
};

// The tiles of a range: cut at multiples of kKeyBlock.
template <class F>
void for_each_key_tile(const KeyRange& range, F f) {
  for (std::size_t key = range.begin; key < range.end;) {
    const std::size_t next = (key / kKeyBlock + 1) * kKeyBlock;
    const std::size_t end = next < range.end ? next : range.end;
    f(KeyRange{key, end, range.kind});
    key = end;
  }
}

inline constexpr std::size_t kBandKeys = 8;
inline constexpr std::size_t kBandPitch = tile_pitch(kQueryBlock + kBandKeys + 2 * kTileUnit);

// The buckets of K·Tᵀ that queries [query, query + lanes) ask of keys [key, key + keys).
struct Band {
  std::size_t first = 0;
  std::size_t count = 0;
};
inline Band band_of(const SparseHead& head, const QueryTile& tile, std::size_t key,
                    std::size_t keys) {
  const auto low = head.position(tile.first) - static_cast<std::ptrdiff_t>(key + keys - 1);
  const auto high = head.position(tile.first + tile.lanes - 1) - static_cast<std::ptrdiff_t>(key);
  const std::int32_t first = head.relative.bucket[low];
  return {static_cast<std::size_t>(first),
          static_cast<std::size_t>(head.relative.bucket[high] - first + 1)};
}

// The bands of a range of at most kKeyBlock keys: f(key of the range, keys, band).
template <class F>
void for_each_band(const SparseHead& head, const QueryTile& tile, const KeyRange& range, F f) {
  for (std::size_t key = 0; key < range.size(); key += kBandKeys) {
    const std::size_t keys = key + kBandKeys < range.size() ? kBandKeys : range.size() - key;
    f(key, keys, band_of(head, tile, range.begin + key, keys));
  }
}

// Pairs, query × tile and query or key × bucket of a tile of queries, as the kernels count them.
void count_query_tile(const SparseHead& head, const QueryTile& tile, TileCounts& counts);

// Distances [low, high] between the tile's queries and the keys of its list; none: low > high.
struct DistanceRange {
  std::ptrdiff_t low = 0;
  std::ptrdiff_t high = -1;
};
DistanceRange distances(const SparseHead& head, const QueryTile& tile);

// Floats of scratch, aligned to 64 bytes, that a call needs; `buckets` of the table T, which meets
// the keys too if there are bands.
std::size_t sparse_forward_scratch(std::size_t d, std::size_t e, std::size_t buckets, bool bands);
std::size_t sparse_backward_scratch(std::size_t d, std::size_t e, std::size_t buckets, bool bands);

// y[i] and L[i] of the tile's queries; `lse` starts at the tile's first and may be null; rows of y
// that see nothing become zeros with L = ∞.
void sparse_forward(const SparseHead& head, const QueryTile& tile, Matrix y, float* lse,
                    float* scratch, TileCounts& counts);

// Where a tile's gradients go. Sums have room for whole vectors: tile_width(d) floats in a row.
struct SparseGradient {
  ConstMatrix dy;                // [m, e]
  const float* lse = nullptr;    // L of the tile's queries
  const float* delta = nullptr;  // D of the tile's queries
  Matrix dq;                     // [m, d], set: through q and through qr
  Matrix dqr;                    // [m, d], set: the part through qr; may be empty
  Matrix dk, dv;                 // [n, d], [n, e], added to
  Matrix all_dk, all_dv;         // of all_k and all_v, added to
  Matrix dtable;                 // [buckets, d], added to
  Matrix dkeys;                  // [n, buckets], added to: s·dS, the gradient of K·Uᵀ
};

void sparse_backward(const SparseHead& head, const QueryTile& tile, const SparseGradient& gradient,
                     float* scratch, TileCounts& counts);

}  // namespace longspan
