// What the tiles share: packing, masks, the online softmax and dropout. Scores are kept as
// Sᵀ[key][query] with kPitch floats between keys.

#if defined(LONGSPAN_KERNELS_TILED_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGSPAN_KERNELS_TILED_ATTENTION_INL_H_
#undef LONGSPAN_KERNELS_TILED_ATTENTION_INL_H_
#else
#define LONGSPAN_KERNELS_TILED_ATTENTION_INL_H_
#endif

#include <hwy/cache_control.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "longspan/kernels/gemm/tile_gemm-inl.h"
#include "longspan/kernels/tiled/tiled_attention.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {

inline constexpr std::size_t kPitch = tile_pitch(kQueryBlock);
inline constexpr float kLog2E = 1.44269504F;
inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// The queries [query, query + lanes) against the keys [key, key + keys).
struct Tile {
  std::size_t query;
  std::size_t lanes;
  std::size_t key;
  std::size_t keys;
};

// Rows [first, first + count) of x where a product can use them: x itself if its rows are dense,
// else a copy. Rows far apart, by a power of two, would all fall into the same sets of the cache.
inline Left dense_rows(ConstMatrix x, std::size_t first, std::size_t count, float* copy) {
  if (x.stride == x.cols) return {x.row_data(first), x.stride};
  const std::size_t stride = tile_width(x.cols);
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(copy + i * stride, x.row_data(first + i), x.cols * sizeof(float));
  }
  return {copy, stride};
}

// Asks for part `part` of `parts` of the rows [first, first + kRows) of x, some time before they
// are needed: rows far apart defeat the prefetcher of the CPU.
template <std::size_t kRows>
HWY_INLINE void prefetch_rows(ConstMatrix x, std::size_t first, std::size_t part,
                              std::size_t parts) {
  constexpr std::size_t kLine = 16;
  const std::size_t last = std::min(first + kRows * (part + 1) / parts, x.rows);
  for (std::size_t i = first + kRows * part / parts; i < last; ++i) {
    for (std::size_t c = 0; c < x.cols; c += kLine) hwy::Prefetch(x.row_data(i) + c);
  }
}

// xᵀ, scaled, with queries in the lanes; lanes up to the next multiple of kTileUnit are zeros.
inline void pack_queries(ConstMatrix x, float scale, float* to) {
  transpose<false>(x.data, x.stride, x.rows, x.cols, scale, to, kPitch);
  const std::size_t width = tile_width(x.rows);
  for (std::size_t c = 0; c < x.cols && x.rows < width; ++c) {
    std::fill(to + c * kPitch + x.rows, to + c * kPitch + width, 0.0F);
  }
}

// Rows of x as the right factor: x itself if whole vectors fit its rows, else a copy padded by
// zeros.
inline Right right_rows(ConstMatrix x, std::size_t first, std::size_t count, float* copy) {
  if (x.stride == x.cols && x.cols % kTileUnit == 0) return {x.row_data(first), x.stride};
  const std::size_t stride = tile_pitch(x.cols);
  for (std::size_t i = 0; i < count; ++i) {
    float* row = copy + i * stride;
    std::memcpy(row, x.row_data(first + i), x.cols * sizeof(float));
    std::fill(row + x.cols, row + tile_width(x.cols), 0.0F);
  }
  return {copy, stride};
}

// Query lane `lane` sees the keys [past, seen) of the tile.
inline std::size_t seen(const TiledHead& head, const Tile& t, std::size_t lane) {
  const std::size_t end = head.end(t.query + lane);
  return end <= t.key ? 0 : std::min(end - t.key, t.keys);
}
inline std::size_t past(const TiledHead& head, const Tile& t, std::size_t lane) {
  const std::size_t begin = head.begin(t.query + lane);
  return begin <= t.key ? 0 : std::min(begin - t.key, t.keys);
}
// Whether any query of the tile sees any of its keys.
inline bool meets(const TiledHead& head, const Tile& t) {
  return seen(head, t, t.lanes - 1) > past(head, t, 0);
}

inline void count_tile(const TiledHead& head, const Tile& t, std::size_t first, std::size_t last,
                       TileCounts& counts) {
  for (std::size_t lane = first; lane < std::min(last, t.lanes); ++lane) {
    const std::size_t first_key = past(head, t, lane);
    const std::size_t end = seen(head, t, lane);
    if (end <= first_key) continue;
    counts.pairs += end - first_key;
    ++counts.query_tiles;
  }
}

// S = −∞ where query lane ≥ `column` must not look, for the first `rows` keys.
template <int kVectors>
HWY_INLINE void hide_future(const TiledHead& head, const Tile& t, std::size_t rows,
                            std::size_t column, float* s) {
  const DF d;
  const hn::RebindToSigned<DF> di;
  const VF hidden = hn::Set(d, kMinusInfinity);
  // Lane sees keys below lane + offset.
  const auto offset = static_cast<std::int64_t>(t.query + 1 + head.k.rows + head.ahead()) -
                      static_cast<std::int64_t>(head.q.rows) - static_cast<std::int64_t>(t.key);
  for (int v = 0; v < kVectors; ++v) {
    const std::size_t lane = column + static_cast<std::size_t>(v) * kVectorLanes;
    const auto end =
        hn::Iota(di, static_cast<std::int32_t>(offset + static_cast<std::int64_t>(lane)));
    for (std::size_t j = seen(head, t, column); j < rows; ++j) {
      const auto sees = hn::Lt(hn::Set(di, static_cast<std::int32_t>(j)), end);
      float* p = s + j * kPitch + lane;
      hn::StoreU(hn::IfThenElse(hn::RebindMask(d, sees), hn::LoadU(d, p), hidden), d, p);
    }
  }
}

// The same where a query lane does not look back so far.
template <int kVectors>
HWY_INLINE void hide_past(const TiledHead& head, const Tile& t, std::size_t rows,
                          std::size_t column, float* s) {
  const DF d;
  const hn::RebindToSigned<DF> di;
  const VF hidden = hn::Set(d, kMinusInfinity);
  const std::size_t last = std::min(column + kVectors * kVectorLanes, t.lanes) - 1;
  const std::size_t most = std::min(past(head, t, last), rows);
  // Lane sees keys from lane + offset on.
  const auto offset = static_cast<std::int64_t>(t.query + head.k.rows) -
                      static_cast<std::int64_t>(head.q.rows + head.before + t.key);
  for (int v = 0; v < kVectors; ++v) {
    const std::size_t lane = column + static_cast<std::size_t>(v) * kVectorLanes;
    const auto begin =
        hn::Iota(di, static_cast<std::int32_t>(offset + static_cast<std::int64_t>(lane)));
    for (std::size_t j = 0; j < most; ++j) {
      const auto hides = hn::Lt(hn::Set(di, static_cast<std::int32_t>(j)), begin);
      float* p = s + j * kPitch + lane;
      hn::StoreU(hn::IfThenElse(hn::RebindMask(d, hides), hidden, hn::LoadU(d, p)), d, p);
    }
  }
}

// Where the distances of query lane `column` to key j of the tile, and of the lanes after it, lie.
template <class T>
HWY_INLINE T* distance_row(const TiledHead& head, const Tile& t, std::size_t column, std::size_t j,
                           T* distances) {
  return distances + static_cast<std::ptrdiff_t>(t.query + column + head.k.rows - head.q.rows) -
         static_cast<std::ptrdiff_t>(t.key + j);
}

// S += d, or the gradient of d += dS.
template <int kVectors>
HWY_INLINE void add_distances(const TiledHead& head, const Tile& t, std::size_t rows,
                              std::size_t column, float* s) {
  const DF d;
  for (std::size_t j = 0; j < rows; ++j) {
    const float* from = distance_row(head, t, column, j, head.distances);
    float* to = s + j * kPitch + column;
    for (std::size_t at = 0; at < kVectors * kVectorLanes; at += kVectorLanes) {
      hn::StoreU(hn::Add(hn::LoadU(d, to + at), hn::LoadU(d, from + at)), d, to + at);
    }
  }
}
template <int kVectors>
HWY_INLINE void gather_distances(const TiledHead& head, const Tile& t, std::size_t rows,
                                 std::size_t column, const float* ds, float* distances) {
  const DF d;
  for (std::size_t j = 0; j < rows; ++j) {
    const float* from = ds + j * kPitch + column;
    float* to = distance_row(head, t, column, j, distances);
    for (std::size_t at = 0; at < kVectors * kVectorLanes; at += kVectorLanes) {
      hn::StoreU(hn::Add(hn::LoadU(d, to + at), hn::LoadU(d, from + at)), d, to + at);
    }
  }
}

// S = c·tanh(S/c), in base 2. With x = S/c within ±7.9, tanh x = x·P(x²)/Q(x²): relative error 6e-9
// and rounding; 1/Q by a step of Newton's from the CPU's estimate instead of a division.
HWY_INLINE VF capped(VF s, VF cap, VF inverse) {
  const DF d;
  const VF x = at_least(-7.9F, at_most(7.9F, hn::Mul(s, inverse)));
  const VF u = hn::Mul(x, x);
  const auto next = [&](VF sum, float c) HWY_ATTR { return hn::MulAdd(sum, u, hn::Set(d, c)); };
  const VF p = next(next(next(next(hn::Set(d, 1.542888462e-8F), 2.202394716e-5F), 0.003579036459F),
                         0.1345065857F),
                    0.9999999944F);
  const VF q = next(
      next(next(next(hn::Set(d, 8.599166653e-7F), 3.423721984e-4F), 0.0261924088F), 0.4678398661F),
      1.0F);
  const VF near = hn::ApproximateReciprocal(q);
  const VF one_over_q = hn::MulAdd(near, hn::NegMulAdd(q, near, hn::Set(d, 1.0F)), near);
  return hn::Mul(hn::Mul(cap, x), hn::Mul(p, one_over_q));
}
template <int kVectors>
HWY_INLINE void cap_scores(float cap, std::size_t rows, std::size_t column, float* s) {
  const DF d;
  const VF c = hn::Set(d, cap * kLog2E);
  const VF inverse = hn::Set(d, 1.0F / (cap * kLog2E));
  for (std::size_t j = 0; j < rows; ++j) {
    float* to = s + j * kPitch + column;
    for (std::size_t at = 0; at < kVectors * kVectorLanes; at += kVectorLanes) {
      hn::StoreU(capped(hn::LoadU(d, to + at), c, inverse), d, to + at);
    }
  }
}

inline void hide_invisible(const TiledHead& head, const Tile& t, std::size_t rows,
                           std::size_t first, std::size_t last, float* s) {
  for (std::size_t lane = first; lane < std::min(last, t.lanes); ++lane) {
    const std::uint8_t* visible = head.visible + (t.query + lane) * head.visible_stride + t.key;
    if (std::memchr(visible, 0, rows) == nullptr) continue;
    for (std::size_t j = 0; j < rows; ++j) {
      if (visible[j] == 0) s[j * kPitch + lane] = kMinusInfinity;
    }
  }
}

// Bias and masks on the scores of a group of lanes.
template <int kVectors>
HWY_INLINE void mask_scores(const TiledHead& head, const Tile& t, std::size_t rows,
                            std::size_t column, float* s) {
  const std::size_t last = column + kVectors * kVectorLanes;
  if (head.bias != nullptr && column < t.lanes) {
    transpose<true>(head.bias + (t.query + column) * head.bias_stride + t.key, head.bias_stride,
                    std::min(last, t.lanes) - column, rows, kLog2E, s + column, kPitch);
  }
  if (head.distances != nullptr) add_distances<kVectors>(head, t, rows, column, s);
  if (head.cap > 0.0F) cap_scores<kVectors>(head.cap, rows, column, s);
  if (head.visible != nullptr) hide_invisible(head, t, rows, column, last, s);
  if (head.looks_ahead_less() && seen(head, t, column) < rows) {
    hide_future<kVectors>(head, t, rows, column, s);
  }
  if (head.before != kAnyDistance) hide_past<kVectors>(head, t, rows, column, s);
}

// The keys of the tile that a group of lanes sees: those of its last query, from the first of the
// tile on unless all are past.
template <int kVectors>
HWY_INLINE std::size_t group_keys(const TiledHead& head, const Tile& t, std::size_t column) {
  const std::size_t last = std::min(column + kVectors * kVectorLanes, t.lanes);
  if (last <= column) return 0;
  const std::size_t end = seen(head, t, last - 1);
  return end > past(head, t, column) ? end : 0;
}

// The running state of one block of queries, queries in the lanes.
struct QueryState {
  float* q;    // [d][kPitch], scaled by s·log₂e
  float* o;    // [e][kPitch]
  float* max;  // m
  float* sum;  // ℓ
};

// m and ℓ before any key.
inline float first_max(float sink) { return std::max(sink, std::numeric_limits<float>::lowest()); }
inline float first_sum(float sink) { return sink == kNoSink ? 0.0F : 1.0F; }

inline void begin_state(ConstMatrix q, float scale, std::size_t e, const QueryState& state,
                        float sink = kNoSink) {
  pack_queries(q, scale * kLog2E, state.q);
  std::fill(state.o, state.o + e * kPitch, 0.0F);
  std::fill(state.max, state.max + kPitch, first_max(sink));
  std::fill(state.sum, state.sum + kPitch, first_sum(sink));
}

// y = O/ℓ and L = m + log₂ ℓ of the queries that y's rows belong to; rows that saw nothing become
// zeros with L = ∞, so that P = 0. `lse` may be null.
inline void finish_state(const QueryState& state, Matrix y, float* lse) {
  float* inverse = state.max;
  for (std::size_t lane = 0; lane < y.rows; ++lane) {
    const float sum = state.sum[lane];
    const bool empty = sum == 0.0F;
    const float level =
        empty ? std::numeric_limits<float>::infinity() : state.max[lane] + std::log2(sum);
    if (lse != nullptr) lse[lane] = level;
    inverse[lane] = empty ? 0.0F : 1.0F / sum;
  }
  const DF d;
  for (std::size_t c = 0; c < y.cols; ++c) {
    float* o = state.o + c * kPitch;
    for (std::size_t lane = 0; lane < y.rows; lane += kVectorLanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, o + lane), hn::LoadU(d, inverse + lane)), d, o + lane);
    }
  }
  transpose<false>(state.o, kPitch, y.cols, y.rows, 1.0F, y.data, y.stride);
}

inline constexpr float kMostScore = std::numeric_limits<float>::max();

// Whether the scores of a vector of queries with this maximum must be limited: one overflowed.
// Finite queries and keys have a mean of the values nevertheless.
HWY_INLINE bool overflows(VF top) {
  const DF d;
  return HWY_UNLIKELY(!hn::AllTrue(d, hn::Le(top, hn::Set(d, kMostScore))));
}

// S = at most the largest float; NaN stays. Returns the same of the maximum.
inline HWY_NOINLINE VF limit_scores(float* s, std::size_t rows, VF top) {
  const DF d;
  for (std::size_t j = 0; j < rows; ++j, s += kPitch) {
    hn::StoreU(at_most(kMostScore, hn::LoadU(d, s)), d, s);
  }
  return at_most(kMostScore, top);
}

// m, ℓ and c of one vector of queries; S becomes P.
template <int kVectors>
HWY_INLINE void online_softmax(float* HWY_RESTRICT s, std::size_t rows, float* HWY_RESTRICT max,
                               float* HWY_RESTRICT sum, float* HWY_RESTRICT factor) {
  if constexpr (kVectors > 2) {
    constexpr std::size_t kNext = 2 * kVectorLanes;
    online_softmax<2>(s, rows, max, sum, factor);
    online_softmax<kVectors - 2>(s + kNext, rows, max + kNext, sum + kNext, factor + kNext);
  } else {
    using R = Row<kVectors>;
    const DF d;
    const R before = load_row<kVectors>(max);
    R top = before;
    for (std::size_t j = 0; j < rows; ++j) {
      const R x = load_row<kVectors>(s + j * kPitch);
      top.v0 = hn::Max(top.v0, x.v0);
      if constexpr (kVectors > 1) top.v1 = hn::Max(top.v1, x.v1);
    }
    if (overflows(top.v0)) top.v0 = limit_scores(s, rows, top.v0);
    if constexpr (kVectors > 1) {
      if (overflows(top.v1)) top.v1 = limit_scores(s + kVectorLanes, rows, top.v1);
    }
    R c, total = load_row<kVectors>(sum);
    c.v0 = exp2_nonpositive(d, hn::Sub(before.v0, top.v0));
    total.v0 = hn::Mul(total.v0, c.v0);
    if constexpr (kVectors > 1) {
      c.v1 = exp2_nonpositive(d, hn::Sub(before.v1, top.v1));
      total.v1 = hn::Mul(total.v1, c.v1);
    }
    for (std::size_t j = 0; j < rows; ++j) {
      R p = load_row<kVectors>(s + j * kPitch);
      p.v0 = exp2_nonpositive(d, hn::Sub(p.v0, top.v0));
      total.v0 = hn::Add(total.v0, p.v0);
      if constexpr (kVectors > 1) {
        p.v1 = exp2_nonpositive(d, hn::Sub(p.v1, top.v1));
        total.v1 = hn::Add(total.v1, p.v1);
      }
      store_row<kVectors>(p, s + j * kPitch);
    }
    store_row<kVectors>(top, max);
    store_row<kVectors>(total, sum);
    store_row<kVectors>(c, factor);
  }
}

// Whether S of a vector of queries must be limited before P is taken again: it overflowed in
// forward, or may where L = ∞ says that a query sees nothing, or forward added up in another order
// (`few` queries), so that large scores may come out above L.
HWY_INLINE bool exceeds(const float* lse, bool few) {
  const DF d;
  const VF top = hn::LoadU(d, lse);
  const auto high = hn::Ge(top, hn::Set(d, kMostScore));
  return HWY_UNLIKELY(few || !hn::AllFalse(d, high));
}

// S = at most L + 1: rounding may lift a weight above 1, and does not double it.
inline HWY_NOINLINE void limit_to_level(float* s, std::size_t rows, const float* lse) {
  const DF d;
  const VF top = hn::LoadU(d, lse);
  for (std::size_t j = 0; j < rows; ++j, s += kPitch) {
    const VF x = at_most(kMostScore, hn::LoadU(d, s));
    const auto above = hn::Gt(hn::Sub(x, top), hn::Set(d, 1.0F));
    hn::StoreU(hn::IfThenElse(above, top, x), d, s);
  }
}

// 1 − tanh² of a score S = c·tanh; hidden ones have −∞, and no weight.
HWY_INLINE VF cap_slope(VF s, VF inverse) {
  const VF t = at_least(-1.0F, hn::Mul(s, inverse));
  return hn::NegMulAdd(t, t, hn::Set(DF(), 1.0F));
}

// S and dP of one vector of queries become P (after dropout) and dS; of scores that were capped
// `inverse` is 1/c.
template <bool kCapped = false>
HWY_INLINE void score_gradient(float* HWY_RESTRICT p, float* HWY_RESTRICT ds, std::size_t rows,
                               const float* HWY_RESTRICT lse, const float* HWY_RESTRICT delta,
                               float inverse = 0.0F) {
  const DF d;
  const VF top = hn::LoadU(d, lse);
  const VF center = hn::LoadU(d, delta);
  for (std::size_t j = 0; j < rows * kPitch; j += kPitch) {
    const VF s = hn::LoadU(d, p + j);
    const VF weight = exp2_nonpositive(d, hn::Sub(s, top));
    VF signal = hn::Mul(weight, hn::Sub(hn::LoadU(d, ds + j), center));
    if constexpr (kCapped) signal = hn::Mul(signal, cap_slope(s, hn::Set(d, inverse)));
    hn::StoreU(weight, d, p + j);
    hn::StoreU(signal, d, ds + j);
  }
}

// The same for one vector whose weights were multiplied by the dropout factors f.
template <bool kCapped = false>
HWY_INLINE void dropped_gradient(float* p, float* ds, VF f, const float* lse, const float* delta,
                                 float inverse = 0.0F) {
  const DF d;
  const VF s = hn::LoadU(d, p);
  const VF weight = exp2_nonpositive(d, hn::Sub(s, hn::LoadU(d, lse)));
  const VF dp = hn::Mul(hn::LoadU(d, ds), f);
  VF signal = hn::Mul(weight, hn::Sub(dp, hn::LoadU(d, delta)));
  if constexpr (kCapped) signal = hn::Mul(signal, cap_slope(s, hn::Set(d, inverse)));
  hn::StoreU(hn::Mul(weight, f), d, p);
  hn::StoreU(signal, d, ds);
}

using DU = hn::RebindToUnsigned<DF>;
using VU = hn::Vec<DU>;

// High and low halves of x·m.
HWY_INLINE void multiply_wide(VU x, VU m, VU& high, VU& low) {
  const DU d;
#if HWY_TARGET == HWY_SCALAR
  const std::uint64_t product = std::uint64_t{hn::GetLane(x)} * hn::GetLane(m);
  low = hn::Set(d, static_cast<std::uint32_t>(product));
  high = hn::Set(d, static_cast<std::uint32_t>(product >> 32U));
#else
  const hn::RepartitionToWide<DU> dw;
  const auto even = hn::MulEven(x, m);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(dw, x))), m);
  low = hn::Mul(x, m);
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
#endif
}

// philox(key, c) of base/random.h, one block per lane.
HWY_INLINE void philox_lanes(RandomKey key, VU& c0, VU& c1, VU& c2, VU& c3) {
  const DU d;
  const VU m0 = hn::Set(d, kPhiloxMultiplier0);
  const VU m1 = hn::Set(d, kPhiloxMultiplier1);
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32U);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    VU high0, low0, high1, low1;
    multiply_wide(c0, m0, high0, low0);
    multiply_wide(c2, m1, high1, low1);
    c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, k0));
    c1 = low1;
    c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, k1));
    c3 = low0;
    k0 += kPhiloxWeyl0;
    k1 += kPhiloxWeyl1;
  }
}

// Calls use(offset, factor) for each vector of the first `rows` keys of a group of lanes, where the
// dropout factor belongs to element `offset` of the scores.
template <int kVectors, class Use>
HWY_INLINE void for_each_dropout(const TiledHead& head, const Tile& t, std::size_t rows,
                                 std::size_t column, Use use) {
  const DF d;
  const DU du;
  const VU threshold = hn::Set(du, head.dropout.threshold());
  const VF scale = hn::Set(d, head.dropout.scale());
  for (int v = 0; v < kVectors; ++v) {
    const std::size_t lane = column + static_cast<std::size_t>(v) * kVectorLanes;
    const VU query = hn::Iota(du, static_cast<std::uint32_t>(t.query + lane));
    for (std::size_t j = 0; j < rows; j += 4) {
      VU c0 = query;
      VU c1 = hn::Set(du, static_cast<std::uint32_t>((t.key + j) / 4));
      VU c2 = hn::Set(du, head.plane);
      VU c3 = hn::Zero(du);
      philox_lanes(head.dropout.key, c0, c1, c2, c3);
      auto put = [&](std::size_t row, VU bits) HWY_ATTR {
        if (row >= rows) return;
        const auto dropped = hn::RebindMask(d, hn::Lt(bits, threshold));
        use(row * kPitch + lane, hn::IfThenZeroElse(dropped, scale));
      };
      put(j, c0);
      put(j + 1, c1);
      put(j + 2, c2);
      put(j + 3, c3);
    }
  }
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // LONGSPAN_KERNELS_TILED_ATTENTION_INL_H_
