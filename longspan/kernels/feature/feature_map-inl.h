// Feature maps on a block of tokens: tokens in the lanes, a row of kFeaturePitch floats per
// feature. Exponentials are in base 2: x' carries log₂e.

#if defined(LONGSPAN_KERNELS_FEATURE_MAP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGSPAN_KERNELS_FEATURE_MAP_INL_H_
#undef LONGSPAN_KERNELS_FEATURE_MAP_INL_H_
#else
#define LONGSPAN_KERNELS_FEATURE_MAP_INL_H_
#endif

#include <hwy/cache_control.h>

#include <algorithm>
#include <limits>

#include "longspan/kernels/feature/feature_attention.h"
#include "longspan/kernels/feature/feature_hadamard-inl.h"
#include "longspan/kernels/gemm/tile_gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {

inline constexpr std::size_t kFeaturePitch = tile_pitch(kFeatureBlock);
inline constexpr float kLog2OfE = 1.44269504F;
// A feature of a key may exceed those of all earlier blocks by 2^kMostRise; beyond, it is cut off,
// so that sums over a block stay finite. Queries of the block that see such a key take their pairs
// one by one, and before the block is added to the state, c rises to it.
inline constexpr float kMostRise = 100.0F;
// The running maximum c follows when a feature exceeds it by more than 2^kSlack: sums have the
// range for it, and scaling them with every new maximum would take a pass over the state each time.
inline constexpr float kSlack = 16.0F;

// What a worker needs for one block of tokens.
struct FeatureScratch {
  float* key_x;    // [d][pitch]: x' of the keys
  float* query_x;  // [d][pitch]: x' of the queries
  float* turn;     // [padded d][pitch], for the Hadamard product
  float* keys;     // [M][pitch]: φ of the keys
  float* query;    // [M][pitch]: φ of the queries
  float* pairs;    // [block][pitch]
  float* out;      // [max(padded d, e)][pitch]
  float* value;    // [block][tile_pitch(e)]
  float* lines;    // 6 × [pitch]
  float* rise;     // [M]
  float* weights;  // [M]: Σ of φ over the keys
  // Backward only.
  float* slope;      // [M][pitch]: ∂L/∂φ of the queries
  float* key_slope;  // [M][pitch]: ∂L/∂φ of the keys
  float* value_t;    // [e][pitch]
  float* signal_t;   // [e][pitch]
  float* dvalue_t;   // [e][pitch]
  float* signal;     // [block][tile_pitch(e)]
  float* mixed;      // [padded d][pitch], for the Hadamard product
};

inline FeatureScratch divide_features(const FeatureSizes& z, float* memory) {
  auto take = [&memory](std::size_t rows, std::size_t pitch) {
    float* at = memory;
    memory += rows * pitch;
    return at;
  };
  const std::size_t wide = tile_width(z.features);
  FeatureScratch s;
  s.key_x = take(z.d, kFeaturePitch);
  s.query_x = take(z.d, kFeaturePitch);
  s.turn = take(FeatureProjection::padded(z.d), kFeaturePitch);
  s.keys = take(z.features, kFeaturePitch);
  s.query = take(z.features, kFeaturePitch);
  s.pairs = take(kFeatureBlock, kFeaturePitch);
  s.out = take(std::max(FeatureProjection::padded(z.d), z.e), kFeaturePitch);
  s.value = take(kFeatureBlock, tile_pitch(z.e));
  s.lines = take(6, kFeaturePitch);
  s.rise = take(1, wide);
  s.weights = take(1, wide);
  s.slope = take(z.features, kFeaturePitch);
  s.key_slope = take(z.features, kFeaturePitch);
  s.value_t = take(z.e, kFeaturePitch);
  s.signal_t = take(z.e, kFeaturePitch);
  s.dvalue_t = take(z.e, kFeaturePitch);
  s.signal = take(kFeatureBlock, tile_pitch(z.e));
  s.mixed = take(FeatureProjection::padded(z.d), kFeaturePitch);
  return s;
}

// C = start + A·B in blocks whose operands stay in the first cache.
inline void product(Left a, Right b, std::size_t rows, std::size_t depth, std::size_t width,
                    Out out) {
  constexpr std::size_t kRows = 36;
  constexpr std::size_t kDepth = 128;
  const std::size_t down = a.columns ? 1 : a.stride;
  const std::size_t along = a.columns ? a.stride : 1;
  for (std::size_t p = 0; p < depth; p += kDepth) {
    for (std::size_t i = 0; i < rows; i += kRows) {
      const Left block{a.data + i * down + p * along, a.stride, a.columns};
      const Out to{out.data + i * out.stride, out.stride, p == 0 ? out.start : Start::kAdd,
                   out.factor};
      tile_gemm(block, {b.data + p * b.stride, b.stride}, std::min(kRows, rows - i),
                std::min(kDepth, depth - p), width, to);
    }
  }
}

// f(row, at) for every vector of a [rows][pitch] block, `width` a multiple of kTileUnit.
template <class F>
HWY_INLINE void for_rows(float* block, std::size_t rows, std::size_t width, const F& f) {
  for (std::size_t r = 0; r < rows; ++r) {
    float* row = block + r * kFeaturePitch;
    for (std::size_t c = 0; c < width; c += kVectorLanes) f(r, c, row + c);
  }
}

HWY_INLINE VF load_lanes(const float* p) { return hn::LoadU(DF(), p); }
HWY_INLINE void store_lanes(VF v, float* p) { hn::StoreU(v, DF(), p); }

// to[i] = f(rows − 1, block[rows − 1][i], … f(0, block[0][i], start)) of kVectors vectors of lanes.
template <int kVectors, class F>
HWY_INLINE void fold_group(const float* block, std::size_t rows, VF start, const F& f, float* to) {
  VF a0 = start, a1 = start, a2 = start, a3 = start;
  for (std::size_t r = 0; r < rows; ++r, block += kFeaturePitch) {
    a0 = f(r, load_lanes(block), a0);
    if constexpr (kVectors == 4) {
      a1 = f(r, load_lanes(block + kVectorLanes), a1);
      a2 = f(r, load_lanes(block + 2 * kVectorLanes), a2);
      a3 = f(r, load_lanes(block + 3 * kVectorLanes), a3);
    }
  }
  store_lanes(a0, to);
  if constexpr (kVectors == 4) {
    store_lanes(a1, to + kVectorLanes);
    store_lanes(a2, to + 2 * kVectorLanes);
    store_lanes(a3, to + 3 * kVectorLanes);
  }
}

// The same of all lanes; a vector alone would wait for itself at every row.
template <class F>
HWY_INLINE void fold_rows(const float* block, std::size_t rows, std::size_t width, VF start,
                          const F& f, float* to) {
  std::size_t c = 0;
  for (; c + 4 * kVectorLanes <= width; c += 4 * kVectorLanes) {
    fold_group<4>(block + c, rows, start, f, to + c);
  }
  for (; c < width; c += kVectorLanes) fold_group<1>(block + c, rows, start, f, to + c);
}

HWY_INLINE void scale_row(float factor, std::size_t width, float* row) {
  for (std::size_t c = 0; c < width; c += kVectorLanes) {
    store_lanes(hn::Mul(load_lanes(row + c), hn::Set(DF(), factor)), row + c);
  }
}

// Lanes that no token occupies.
inline void fill_tail(float* block, std::size_t rows, std::size_t count, float value) {
  const std::size_t width = tile_width(count);
  for (std::size_t r = 0; r < rows && count < width; ++r) {
    std::fill(block + r * kFeaturePitch + count, block + r * kFeaturePitch + width, value);
  }
}

// Asks for the rows [begin, end) of x: rows far apart defeat the prefetcher of the CPU.
inline void prefetch_rows_of(ConstMatrix x, std::size_t begin, std::size_t end) {
  constexpr std::size_t kLine = 16;
  for (std::size_t i = begin; i < end; ++i) {
    const float* row = x.row_data(i);
    for (std::size_t c = 0; c < x.cols; c += kLine) hwy::Prefetch(row + c);
  }
}

// Half of the block of rows behind x: all of them at once would wait for each other.
inline void prefetch_next(ConstMatrix x, std::size_t half) {
  prefetch_rows_of(x, kFeatureBlock + x.rows * half / 2, kFeatureBlock + x.rows * (half + 1) / 2);
}

// Tokens that are turned at a time, while the next ones are on their way: rows 2^k apart share few
// sets of the first cache.
inline constexpr std::size_t kTurned = 8;

// to[c][i] = scale·x[i][c].
inline void pack_tokens(ConstMatrix x, float scale, float* to) {
  for (std::size_t i = 0; i < x.rows; i += kTurned) {
    prefetch_rows_of(x, i + kTurned, std::min(i + 2 * kTurned, x.rows));
    transpose<false>(x.row_data(i), x.stride, std::min(kTurned, x.rows - i), x.cols, scale, to + i,
                     kFeaturePitch);
  }
  fill_tail(to, x.cols, x.rows, 0.0F);
}

// x[i][c] = scale·from[c][i].
inline void unpack_tokens(const float* from, float scale, Matrix x) {
  for (std::size_t i = 0; i < x.rows; i += kTurned) {
    prefetch_rows_of(x, i + kTurned, std::min(i + 2 * kTurned, x.rows));
    transpose<false>(from + i, kFeaturePitch, x.cols, std::min(kTurned, x.rows - i), scale,
                     x.row_data(i), x.stride);
  }
}

// Rows of x, dense and padded to whole vectors.
inline void copy_tokens(ConstMatrix x, float* to) {
  const std::size_t pitch = tile_pitch(x.cols);
  for (std::size_t i = 0; i < x.rows; ++i) {
    std::copy_n(x.row_data(i), x.cols, to + i * pitch);
    std::fill(to + i * pitch + x.cols, to + i * pitch + tile_width(x.cols), 0.0F);
  }
}

// A block of p rows of Ω, or what is left of them.
struct HadamardBlock {
  std::size_t first;  // row of Ω
  std::size_t rows;   // at most p
  const float *d1, *d2, *d3;
  bool opens, closes;  // the first and the last of its rotation
};
// Calls f(block) for all, those of a rotation one after the other.
template <class F>
HWY_INLINE void for_each_block(const FeatureProjection& omega, std::size_t d, const F& f) {
  const std::size_t p = FeatureProjection::padded(d);
  const float* d3 = omega.signs + 2 * omega.rotations(d) * p;
  constexpr std::size_t kSharing = FeatureProjection::kSharing;
  for (std::size_t block = 0; block < omega.blocks(d); ++block) {
    const float* d1 = omega.signs + 2 * (block / kSharing) * p;
    const std::size_t first = block * p;
    f(HadamardBlock{first, std::min(p, omega.rows - first), d1, d1 + p, d3 + first,
                    block % kSharing == 0, (block + 1) % kSharing == 0 || first + p >= omega.rows});
  }
}

// u = Ω·x' by fast transforms.
inline void project_hadamard(const FeatureProjection& omega, std::size_t d, std::size_t width,
                             const FeatureScratch& s, const float* x, float* u) {
  const DF df;
  const std::size_t p = FeatureProjection::padded(d);
  for_each_block(omega, d, [&](const HadamardBlock& b) HWY_ATTR {
    if (b.opens && d < p) {
      for_rows(s.turn, p, width, [&](std::size_t r, std::size_t c, float* at) HWY_ATTR {
        store_lanes(r < d ? load_lanes(x + r * kFeaturePitch + c) : hn::Zero(df), at);
      });
    }
    if (b.opens) hadamard({d < p ? s.turn : x, s.turn, s.turn, p, width, 2, {b.d1, b.d2}});
    const float* norms = omega.norms + b.first;
    float* to = u + b.first * kFeaturePitch;
    if (b.rows == p) {
      hadamard({s.turn, to, to, p, width, 1, {b.d3}, norms});
      return;
    }
    hadamard({s.turn, s.turn, s.turn, p, width, 1, {b.d3}});
    for_rows(to, b.rows, width, [&](std::size_t r, std::size_t c, float* at) HWY_ATTR {
      const VF y = load_lanes(s.turn + r * kFeaturePitch + c);
      store_lanes(hn::Mul(y, hn::Set(df, norms[r])), at);
    });
  });
}

// to = Ωᵀ·du = Σ D₁·H·D₂·H·Σ D₃·H·diag(norm)·du, sums over rotations and their blocks; `to` has p
// rows.
inline void unproject_hadamard(const FeatureProjection& omega, std::size_t d, std::size_t width,
                               const FeatureScratch& s, const float* du, float* to) {
  const DF df;
  const std::size_t p = FeatureProjection::padded(d);
  for_each_block(omega, d, [&](const HadamardBlock& b) HWY_ATTR {
    const float* norms = omega.norms + b.first;
    const float* from = du + b.first * kFeaturePitch;
    if (b.rows == p) {
      hadamard({from, s.turn, s.mixed, p, width, 1, {norms}, b.d3, !b.opens});
    } else {
      for_rows(s.turn, p, width, [&](std::size_t r, std::size_t c, float* at) HWY_ATTR {
        store_lanes(r < b.rows
                        ? hn::Mul(load_lanes(from + r * kFeaturePitch + c), hn::Set(df, norms[r]))
                        : hn::Zero(df),
                    at);
      });
      hadamard({s.turn, s.turn, s.mixed, p, width, 1, {nullptr}, b.d3, !b.opens});
    }
    if (!b.closes) return;
    const bool adds = b.first >= FeatureProjection::kSharing * p;
    hadamard({s.mixed, s.mixed, to, p, width, 2, {nullptr, b.d2}, b.d1, adds});
  });
}

HWY_INLINE bool is_exponential(const FeatureMap& map) {
  return map.kind == FeatureKind::kExp || map.kind == FeatureKind::kShifted;
}

// u of a block of tokens, exponentials in base 2; `turned` becomes x' if there is a projection.
inline void project(const FeatureMap& map, ConstMatrix x, const FeatureScratch& s, float* turned,
                    float* u) {
  const float scale = map.scale * (is_exponential(map) ? kLog2OfE : 1.0F);
  const std::size_t width = tile_width(x.rows);
  const FeatureProjection& omega = map.projection;
  if (omega.rows == 0) {
    pack_tokens(x, scale, u);
    return;
  }
  pack_tokens(x, scale, turned);
  if (omega.hadamard) {
    project_hadamard(omega, x.cols, width, s, turned, u);
  } else {
    product({omega.dense.data, omega.dense.stride}, {turned, kFeaturePitch}, omega.rows, x.cols,
            width, {u, kFeaturePitch});
  }
  if (!map.mirrored) return;
  for_rows(u, omega.rows, width, [&](std::size_t r, std::size_t c, float* at) HWY_ATTR {
    store_lanes(hn::Neg(load_lanes(at)), u + (omega.rows + r) * kFeaturePitch + c);
  });
}

// ‖x'‖²/2 in base 2, of x' that carries log₂e.
inline void half_norms(const float* turned, std::size_t d, std::size_t width, float* norm) {
  const auto square = [](std::size_t, VF x, VF sum) HWY_ATTR { return hn::MulAdd(x, x, sum); };
  fold_rows(turned, d, width, hn::Zero(DF()), square, norm);
  scale_row(0.5F / kLog2OfE, width, norm);
}

// The largest of each lane over the rows of u.
inline void lane_maxima(const float* u, std::size_t rows, std::size_t width, float* most) {
  const auto larger = [](std::size_t, VF x, VF top) HWY_ATTR { return hn::Max(top, x); };
  fold_rows(u, rows, width, hn::Set(DF(), std::numeric_limits<float>::lowest()), larger, most);
}

// φ of plain kinds in place; kShifted subtracts `minus` from each lane first.
inline void apply_plain(const FeatureMap& map, std::size_t features, std::size_t count,
                        const float* minus, float* u) {
  const DF d;
  const VF epsilon = hn::Set(d, map.epsilon);
  const VF one = hn::Set(d, 1.0F);
  const VF log2e = hn::Set(d, kLog2OfE);
  const std::size_t width = tile_width(count);
  switch (map.kind) {
    case FeatureKind::kElu:
      for_rows(u, features, width, [&](std::size_t, std::size_t, float* at) HWY_ATTR {
        const VF x = load_lanes(at);
        const VF low = exp2_nonpositive(d, hn::Mul(at_most(0.0F, x), log2e));
        store_lanes(hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Add(x, one), low), at);
      });
      break;
    case FeatureKind::kRelu:
      for_rows(u, features, width, [&](std::size_t, std::size_t, float* at) HWY_ATTR {
        store_lanes(hn::Add(at_least(0.0F, load_lanes(at)), epsilon), at);
      });
      break;
    default:
      for_rows(u, features, width, [&](std::size_t, std::size_t c, float* at) HWY_ATTR {
        const VF x = hn::Sub(load_lanes(at), load_lanes(minus + c));
        store_lanes(hn::Add(exp2_nonpositive(d, x), epsilon), at);
      });
  }
  fill_tail(u, features, count, 0.0F);
}

// slope = ∂L/∂u (natural units) from slope = ∂L/∂φ·inverse and φ itself. For kExp φ is relative to
// whatever slope was computed with.
inline void differentiate(const FeatureMap& map, std::size_t features, std::size_t width,
                          const float* phi, float* slope) {
  const DF d;
  const VF epsilon = hn::Set(d, map.epsilon);
  const FeatureKind kind = map.kind;
  for_rows(slope, features, width, [&](std::size_t r, std::size_t c, float* at) HWY_ATTR {
    const VF f = load_lanes(phi + r * kFeaturePitch + c);
    const VF g = load_lanes(at);
    if (kind == FeatureKind::kElu) {  // φ' = 1 where φ > 1, φ elsewhere
      store_lanes(hn::Mul(g, at_most(1.0F, f)), at);
    } else if (kind == FeatureKind::kRelu) {
      store_lanes(hn::IfThenZeroElse(hn::Le(f, epsilon), g), at);
    } else if (kind == FeatureKind::kShifted) {
      store_lanes(hn::Mul(g, hn::Sub(f, epsilon)), at);
    } else {
      store_lanes(hn::Mul(g, f), at);
    }
  });
}

// dx = scale·(Ωᵀ·du − (Σ du)·x'), the second term if x' is given; du is overwritten when mirrored.
inline void unproject(const FeatureMap& map, const FeatureScratch& s, const float* turned,
                      float* du, Matrix dx) {
  const std::size_t width = tile_width(dx.rows);
  const FeatureProjection& omega = map.projection;
  if (omega.rows == 0) {
    unpack_tokens(du, map.scale, dx);
    return;
  }
  float* total = s.lines;
  if (turned != nullptr) {
    const auto add = [](std::size_t, VF x, VF sum) HWY_ATTR { return hn::Add(sum, x); };
    fold_rows(du, map.mirrored ? 2 * omega.rows : omega.rows, width, hn::Zero(DF()), add, total);
    scale_row(-1.0F / kLog2OfE, width, total);
  }
  if (map.mirrored) {
    for_rows(du, omega.rows, width, [&](std::size_t r, std::size_t c, float* at) HWY_ATTR {
      const VF other = load_lanes(du + (omega.rows + r) * kFeaturePitch + c);
      store_lanes(hn::Sub(load_lanes(at), other), at);
    });
  }
  if (omega.hadamard) {
    unproject_hadamard(omega, dx.cols, width, s, du, s.out);
  } else {
    product({omega.dense.data, omega.dense.stride, true}, {du, kFeaturePitch}, dx.cols, omega.rows,
            width, {s.out, kFeaturePitch});
  }
  if (turned != nullptr) {
    for_rows(s.out, dx.cols, width, [&](std::size_t r, std::size_t c, float* at) HWY_ATTR {
      const VF x = load_lanes(turned + r * kFeaturePitch + c);
      store_lanes(hn::MulAdd(x, load_lanes(total + c), load_lanes(at)), at);
    });
  }
  unpack_tokens(s.out, map.scale, dx);
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // LONGSPAN_KERNELS_FEATURE_MAP_INL_H_
