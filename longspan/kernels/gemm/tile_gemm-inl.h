// One register-blocked product for all tiles, and the transposition that feeds it.
//
//   C[rows × width] = start + A[rows × depth]·B[depth × width]
//
// B and C have their columns in the vector lanes; A is read one scalar at a time, so it may be
// stored either way. Blocks of 6 rows × 2 vectors keep 12 sums in 16 registers, 6 × 4 keep
// 24 in 32; sums are named, because g++ spills arrays of them.

#if defined(LONGSPAN_KERNELS_TILE_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGSPAN_KERNELS_TILE_GEMM_INL_H_
#undef LONGSPAN_KERNELS_TILE_GEMM_INL_H_
#else
#define LONGSPAN_KERNELS_TILE_GEMM_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <type_traits>

#include "longspan/kernels/exp2-inl.h"
#include "longspan/kernels/tiled/tile_layout.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;
using VF = hn::Vec<DF>;

// A group of columns is as wide as the registers allow.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
inline constexpr int kGroupVectors = 4;
#else
inline constexpr int kGroupVectors = 2;
#endif
inline constexpr std::size_t kVectorLanes = hn::MaxLanes(DF());
inline constexpr std::size_t kGroup = kGroupVectors * kVectorLanes;
static_assert(kTileUnit % kVectorLanes == 0);

enum class Start { kZero, kAdd, kScale };  // 0, C, C·diag(factor)

// A(i, p) = data[i·stride + p], or data[i + p·stride] if columns are contiguous.
struct Left {
  const float* data;
  std::size_t stride;
  bool columns = false;
};

struct Right {
  const float* data;
  std::size_t stride;
};

struct Out {
  float* data;
  std::size_t stride;
  Start start = Start::kZero;
  const float* factor = nullptr;  // kScale: one per column
};

// A row of a register block.
template <int kVectors>
struct Row {
  VF v0, v1, v2, v3;
};

template <int kVectors>
HWY_INLINE Row<kVectors> load_row(const float* HWY_RESTRICT p) {
  const DF d;
  Row<kVectors> r;
  r.v0 = hn::LoadU(d, p);
  if constexpr (kVectors > 1) r.v1 = hn::LoadU(d, p + kVectorLanes);
  if constexpr (kVectors > 2) r.v2 = hn::LoadU(d, p + 2 * kVectorLanes);
  if constexpr (kVectors > 2) r.v3 = hn::LoadU(d, p + 3 * kVectorLanes);
  return r;
}

template <int kVectors>
HWY_INLINE void store_row(const Row<kVectors>& r, float* HWY_RESTRICT p) {
  const DF d;
  hn::StoreU(r.v0, d, p);
  if constexpr (kVectors > 1) hn::StoreU(r.v1, d, p + kVectorLanes);
  if constexpr (kVectors > 2) hn::StoreU(r.v2, d, p + 2 * kVectorLanes);
  if constexpr (kVectors > 2) hn::StoreU(r.v3, d, p + 3 * kVectorLanes);
}

template <int kVectors>
HWY_INLINE Row<kVectors> start_row(const Out& out, const float* HWY_RESTRICT c,
                                   std::size_t column) {
  Row<kVectors> r;
  if (out.start == Start::kZero) {
    r.v0 = r.v1 = r.v2 = r.v3 = hn::Zero(DF());
    return r;
  }
  r = load_row<kVectors>(c);
  if (out.start == Start::kAdd) return r;
  const Row<kVectors> f = load_row<kVectors>(out.factor + column);
  r.v0 = hn::Mul(r.v0, f.v0);
  if constexpr (kVectors > 1) r.v1 = hn::Mul(r.v1, f.v1);
  if constexpr (kVectors > 2) r.v2 = hn::Mul(r.v2, f.v2);
  if constexpr (kVectors > 2) r.v3 = hn::Mul(r.v3, f.v3);
  return r;
}

template <int kVectors>
HWY_INLINE void add_product(const float* a, const Row<kVectors>& b, Row<kVectors>& c) {
  const VF x = hn::Set(DF(), *a);
  c.v0 = hn::MulAdd(x, b.v0, c.v0);
  if constexpr (kVectors > 1) c.v1 = hn::MulAdd(x, b.v1, c.v1);
  if constexpr (kVectors > 2) c.v2 = hn::MulAdd(x, b.v2, c.v2);
  if constexpr (kVectors > 2) c.v3 = hn::MulAdd(x, b.v3, c.v3);
}

inline constexpr int kLineFloats = 16;  // floats of a line of the cache

HWY_INLINE void prefetch_second(const float* p) { __builtin_prefetch(p, /*rw=*/0, /*locality=*/2); }

// kRows × kVectors of C; `a` is at the first row, `b` and `c` at the first column. Meanwhile kAhead
// lines a step of what is read later, from `ahead` on, come into the second cache.
template <int kRows, int kVectors, bool kColumns, int kAhead = 0>
HWY_INLINE void tile_block(const float* HWY_RESTRICT a, std::size_t a_stride,
                           const float* HWY_RESTRICT b, std::size_t b_stride, std::size_t depth,
                           const Out& out, float* HWY_RESTRICT c, std::size_t column,
                           [[maybe_unused]] const float* ahead = nullptr) {
  using R = Row<kVectors>;
  const std::size_t cs = out.stride;
  R r0 = start_row<kVectors>(out, c, column);
  R r1, r2, r3, r4, r5;
  if constexpr (kRows > 1) r1 = start_row<kVectors>(out, c + cs, column);
  if constexpr (kRows > 2) r2 = start_row<kVectors>(out, c + 2 * cs, column);
  if constexpr (kRows > 3) r3 = start_row<kVectors>(out, c + 3 * cs, column);
  if constexpr (kRows > 4) r4 = start_row<kVectors>(out, c + 4 * cs, column);
  if constexpr (kRows > 5) r5 = start_row<kVectors>(out, c + 5 * cs, column);
  const std::size_t row = kColumns ? 1 : a_stride;
  const std::size_t step = kColumns ? a_stride : 1;
  const float* a3 = a + 3 * row;
#pragma GCC unroll 4
  for (std::size_t p = 0; p < depth; ++p) {
    const R x = load_row<kVectors>(b);
    add_product<kVectors>(a, x, r0);
    if constexpr (kRows > 1) add_product<kVectors>(a + row, x, r1);
    if constexpr (kRows > 2) add_product<kVectors>(a + 2 * row, x, r2);
    if constexpr (kRows > 3) add_product<kVectors>(a3, x, r3);
    if constexpr (kRows > 4) add_product<kVectors>(a3 + row, x, r4);
    if constexpr (kRows > 5) add_product<kVectors>(a3 + 2 * row, x, r5);
    if constexpr (kAhead > 0) {
      for (int line = 0; line < kAhead; ++line) prefetch_second(ahead + kLineFloats * line);
      ahead += kAhead * kLineFloats;
    }
    a += step;
    a3 += step;
    b += b_stride;
  }
  store_row<kVectors>(r0, c);
  if constexpr (kRows > 1) store_row<kVectors>(r1, c + cs);
  if constexpr (kRows > 2) store_row<kVectors>(r2, c + 2 * cs);
  if constexpr (kRows > 3) store_row<kVectors>(r3, c + 3 * cs);
  if constexpr (kRows > 4) store_row<kVectors>(r4, c + 4 * cs);
  if constexpr (kRows > 5) store_row<kVectors>(r5, c + 5 * cs);
}

// All rows of a group of kVectors vectors of columns.
template <int kVectors, bool kColumns>
HWY_NOINLINE void tile_columns(Left a, Right b, std::size_t rows, std::size_t depth, Out out,
                               std::size_t column) {
  const std::size_t next = kColumns ? 1 : a.stride;
  const float* pa = a.data;
  const float* pb = b.data + column;
  float* pc = out.data + column;
  std::size_t i = 0;
  for (; i + 6 <= rows; i += 6) {
    tile_block<6, kVectors, kColumns>(pa, a.stride, pb, b.stride, depth, out, pc, column);
    pa += 6 * next;
    pc += 6 * out.stride;
  }
  switch (rows - i) {
    case 5:
      return tile_block<5, kVectors, kColumns>(pa, a.stride, pb, b.stride, depth, out, pc, column);
    case 4:
      return tile_block<4, kVectors, kColumns>(pa, a.stride, pb, b.stride, depth, out, pc, column);
    case 3:
      return tile_block<3, kVectors, kColumns>(pa, a.stride, pb, b.stride, depth, out, pc, column);
    case 2:
      return tile_block<2, kVectors, kColumns>(pa, a.stride, pb, b.stride, depth, out, pc, column);
    case 1:
      return tile_block<1, kVectors, kColumns>(pa, a.stride, pb, b.stride, depth, out, pc, column);
    default:
      return;
  }
}

// Calls f(column, vectors) for groups of columns that cover [0, width), width a multiple of
// kTileUnit.
template <class F>
HWY_INLINE void for_each_group(std::size_t width, F f) {
  std::size_t column = 0;
  for (; column + kGroup <= width; column += kGroup) {
    f(column, std::integral_constant<int, kGroupVectors>());
  }
  if constexpr (kGroup > 2 * kTileUnit) {
    constexpr std::size_t kHalf = kGroup / 2;
    for (; column + kHalf <= width; column += kHalf) {
      f(column, std::integral_constant<int, kGroupVectors / 2>());
    }
  }
  if constexpr (kGroup > kTileUnit) {
    for (; column < width; column += kTileUnit) {
      f(column, std::integral_constant<int, static_cast<int>(kTileUnit / kVectorLanes)>());
    }
  }
}

template <int kVectors>
HWY_INLINE void tile_gemm_group(Left a, Right b, std::size_t rows, std::size_t depth, Out out,
                                std::size_t column) {
  if (a.columns) {
    tile_columns<kVectors, true>(a, b, rows, depth, out, column);
  } else {
    tile_columns<kVectors, false>(a, b, rows, depth, out, column);
  }
}

HWY_INLINE void tile_gemm(Left a, Right b, std::size_t rows, std::size_t depth, std::size_t width,
                          Out out) {
  for_each_group(width, [&](std::size_t column, auto vectors) HWY_ATTR {
    tile_gemm_group<vectors()>(a, b, rows, depth, out, column);
  });
}

// Squares of kSquare × kSquare that are transposed in registers; 1 is an element.
#if HWY_TARGET == HWY_SCALAR
inline constexpr std::size_t kSquare = 1;
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
inline constexpr std::size_t kSquare = 8;
#else
inline constexpr std::size_t kSquare = 4;
#endif

// to = scale·q, or += with kAdd.
template <bool kAdd, class D, class V>
HWY_INLINE void put_scaled(D d, V q, float scale, float* to) {
  const V s = hn::Set(d, scale);
  hn::StoreU(kAdd ? hn::MulAdd(q, s, hn::LoadU(d, to)) : hn::Mul(q, s), d, to);
}

template <bool kAdd, std::size_t kSize>
HWY_INLINE void transpose_square(const float* HWY_RESTRICT src,
                                 [[maybe_unused]] std::size_t src_stride, float scale,
                                 float* HWY_RESTRICT dst, [[maybe_unused]] std::size_t dst_stride) {
  if constexpr (kSize == 1) {
    *dst = scale * *src + (kAdd ? *dst : 0.0F);
  } else {
#if HWY_TARGET != HWY_SCALAR
    const hn::FixedTag<float, kSize> d;
    const hn::RepartitionToWide<decltype(d)> wide;
    using V = hn::Vec<decltype(d)>;
    // Of rows a, b, c, e: columns 0…3 of their lower four elements, with those of the upper four
    // in the upper half.
    struct Four {
      V c0, c1, c2, c3;
    };
    auto four = [&](const float* p) HWY_ATTR {
      const V r0 = hn::LoadU(d, p);
      const V r1 = hn::LoadU(d, p + src_stride);
      const V r2 = hn::LoadU(d, p + 2 * src_stride);
      const V r3 = hn::LoadU(d, p + 3 * src_stride);
      const auto a = hn::BitCast(wide, hn::InterleaveLower(d, r0, r1));
      const auto b = hn::BitCast(wide, hn::InterleaveLower(d, r2, r3));
      const auto e = hn::BitCast(wide, hn::InterleaveUpper(d, r0, r1));
      const auto f = hn::BitCast(wide, hn::InterleaveUpper(d, r2, r3));
      return Four{hn::BitCast(d, hn::InterleaveLower(wide, a, b)),
                  hn::BitCast(d, hn::InterleaveUpper(wide, a, b)),
                  hn::BitCast(d, hn::InterleaveLower(wide, e, f)),
                  hn::BitCast(d, hn::InterleaveUpper(wide, e, f))};
    };
    auto put = [&](std::size_t column, V q)
                   HWY_ATTR { put_scaled<kAdd>(d, q, scale, dst + column * dst_stride); };
    const Four top = four(src);
    if constexpr (kSize == 4) {
      put(0, top.c0);
      put(1, top.c1);
      put(2, top.c2);
      put(3, top.c3);
    } else {
      const Four low = four(src + 4 * src_stride);
      put(0, hn::ConcatLowerLower(d, low.c0, top.c0));
      put(1, hn::ConcatLowerLower(d, low.c1, top.c1));
      put(2, hn::ConcatLowerLower(d, low.c2, top.c2));
      put(3, hn::ConcatLowerLower(d, low.c3, top.c3));
      put(4, hn::ConcatUpperUpper(d, low.c0, top.c0));
      put(5, hn::ConcatUpperUpper(d, low.c1, top.c1));
      put(6, hn::ConcatUpperUpper(d, low.c2, top.c2));
      put(7, hn::ConcatUpperUpper(d, low.c3, top.c3));
    }
#endif
  }
}

// dst[j][i] = scale·src[i][j], or += with kAdd, for i < rows and j < cols: whole squares of kSize,
// then the two borders by smaller ones. Runs along the rows that are farther apart, so that each of
// their cache lines is visited once.
template <bool kAdd, std::size_t kSize>
HWY_INLINE void transpose_squares(const float* src, std::size_t src_stride, std::size_t rows,
                                  std::size_t cols, float scale, float* dst,
                                  std::size_t dst_stride) {
  const std::size_t whole_rows = rows / kSize * kSize;
  const std::size_t whole_cols = cols / kSize * kSize;
  auto square = [&](std::size_t i, std::size_t j) HWY_ATTR {
    transpose_square<kAdd, kSize>(src + i * src_stride + j, src_stride, scale,
                                  dst + j * dst_stride + i, dst_stride);
  };
  if (src_stride >= dst_stride) {
    for (std::size_t i = 0; i < whole_rows; i += kSize) {
      for (std::size_t j = 0; j < whole_cols; j += kSize) square(i, j);
    }
  } else {
    for (std::size_t j = 0; j < whole_cols; j += kSize) {
      for (std::size_t i = 0; i < whole_rows; i += kSize) square(i, j);
    }
  }
  if constexpr (kSize > 1) {
    constexpr std::size_t kSmaller = kSize > 4 ? 4 : 1;
    if (whole_cols < cols) {
      transpose_squares<kAdd, kSmaller>(src + whole_cols, src_stride, whole_rows, cols - whole_cols,
                                        scale, dst + whole_cols * dst_stride, dst_stride);
    }
    if (whole_rows < rows) {
      transpose_squares<kAdd, kSmaller>(src + whole_rows * src_stride, src_stride,
                                        rows - whole_rows, cols, scale, dst + whole_rows,
                                        dst_stride);
    }
  }
}

template <bool kAdd>
HWY_NOINLINE void transpose(const float* src, std::size_t src_stride, std::size_t rows,
                            std::size_t cols, float scale, float* dst, std::size_t dst_stride) {
  transpose_squares<kAdd, kSquare>(src, src_stride, rows, cols, scale, dst, dst_stride);
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // LONGSPAN_KERNELS_TILE_GEMM_INL_H_
