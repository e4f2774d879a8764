// A gets by without a copy, because six of its rows or columns are all that is read at a time,
// unless it is transposed and its rows are so far apart that these few columns fill the cache too.

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/gemm/packed_gemm.cc"
#include <hwy/foreach_target.h>
// clang-format on

#include "longspan/kernels/gemm/packed_gemm.h"

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>

#include "longspan/base/integers.h"
#include "longspan/kernels/gemm/panel_gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace HWY_NAMESPACE {

static_assert(detail::kPanelCols % kGroup == 0);

constexpr size_t kLeftFloats = 24576;
constexpr size_t kLeftRows = kLeftFloats / kMaxDepth / kRegisterRows * kRegisterRows;
constexpr size_t kSameSet = 1024;  // floats: addresses 4 KiB apart share a set
// Rows of A this far apart are copied if as many columns use the copy.
constexpr size_t kFarApart = 256;
constexpr size_t kManyColumns = 256;

constexpr size_t kAhead = 8;  // rows of B that are on their way while one is packed

// Rows far apart defeat the prefetcher of the CPU.
HWY_INLINE void prefetch_row(const float* row, size_t cols) {
  constexpr size_t kLine = 16;
  for (size_t c = 0; c < cols; c += kLine) hwy::Prefetch(row + c);
}

// groups[j / kGroup][p][j % kGroup] = α·B[p, j] for `rows` rows p of B; groups are `apart` floats
// from each other, and the last one is filled up with zeros.
HWY_INLINE void pack_rows(const float* b, size_t stride, size_t rows, size_t cols, float alpha,
                          float* HWY_RESTRICT groups, size_t apart) {
  const DF d;
  const VF scale = hn::Set(d, alpha);
  const size_t whole = cols / kGroup * kGroup;
  for (size_t p = 0; p < rows; ++p) {
    const float* row = b + p * stride;
    float* to = groups + p * kGroup;
    if (p + kAhead < rows) prefetch_row(row + kAhead * stride, cols);
    for (size_t j = 0; j < whole; j += kGroup) {
      for (size_t v = 0; v < kGroup; v += kVectorLanes) {
        hn::StoreU(hn::Mul(scale, hn::LoadU(d, row + j + v)), d, to + v);
      }
      to += apart;
    }
    if (whole == cols) continue;
    for (size_t j = 0; j < kGroup; ++j) to[j] = whole + j < cols ? alpha * row[whole + j] : 0.0F;
  }
}

// The same from B stored cols×depth.
HWY_INLINE void pack_columns(const float* b, size_t stride, size_t depth, size_t cols, float alpha,
                             float* HWY_RESTRICT groups) {
  for (size_t j = 0; j < cols; j += kGroup) {
    const size_t width = HWY_MIN(kGroup, cols - j);
    float* to = groups + j * depth;
    if (width < kGroup) std::fill_n(to, depth * kGroup, 0.0F);
    transpose<false>(b + j * stride, stride, width, depth, alpha, to, kGroup);
  }
}

void pack(ConstMatrix b, const GemmOptions& o, size_t first, size_t count,
          const detail::PackedBlock& block) {
  if (o.transpose_b) {
    pack_columns(b.row_data(first), b.stride, block.depth, count, o.alpha,
                 block.panels + first * block.depth);
    return;
  }
  // Some columns at a time: groups may be a power of two apart, and only so many of them stay in
  // the cache.
  constexpr size_t kAtOnce = 64;
  for (size_t j = 0; j < block.cols; j += kAtOnce) {
    pack_rows(b.row_data(first) + j, b.stride, count, HWY_MIN(kAtOnce, block.cols - j), o.alpha,
              block.panels + j * block.depth + first * kGroup, kGroup * block.depth);
  }
}

// groups[i / 6][p][i % 6] = A[i, p] from A stored depth×rows. Eight lanes are moved for six, and
// the next step overwrites the surplus, which the last one must not leave behind.
void pack_left(const float* a, size_t stride, size_t depth, size_t rows,
               float* HWY_RESTRICT groups) {
  for (size_t p = 0; p < depth; ++p) {
    const float* row = a + p * stride;
    float* to = groups + p * kRegisterRows;
    size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
    const hn::CappedTag<float, 8> d8;
    const size_t lanes = hn::Lanes(d8);
    for (; p + 1 < depth && i + 8 <= rows; i += kRegisterRows) {
      for (size_t v = 0; v < 8; v += lanes) hn::StoreU(hn::LoadU(d8, row + i + v), d8, to + v);
      to += depth * kRegisterRows;
    }
#endif
    for (; i < rows; i += kRegisterRows) {
      std::copy_n(row + i, HWY_MIN(kRegisterRows, rows - i), to);
      to += depth * kRegisterRows;
    }
  }
}

// Rows p … p + depth − 1 of a packed block, from some group of columns on.
struct Piece {
  const float* groups;
  size_t apart;  // from one group of columns to the next
  size_t depth;
  bool add;
};

template <bool kColumns>
HWY_INLINE void multiply_piece(const LeftRows& left, const Piece& piece, Matrix c) {
  for (size_t j = 0; j < c.cols; j += kGroup) {
    const Panel panel{piece.groups + j / kGroup * piece.apart, piece.depth,
                      HWY_MIN(kGroup, c.cols - j), piece.add};
    multiply_panel<kColumns>(left, panel, c.data + j, c.stride);
  }
}

HWY_INLINE void multiply_transposed(ConstMatrix a, const Piece& piece, Matrix c) {
  const bool far = a.stride >= kFarApart && c.cols >= kManyColumns;
  if (!far && a.stride % kSameSet != 0) {
    multiply_piece<true>({a.data, a.stride, kRegisterRows, a.cols}, piece, c);
    return;
  }
  HWY_ALIGN float groups[kLeftFloats];
  for (size_t i = 0; i < a.cols; i += kLeftRows) {
    const size_t rows = HWY_MIN(kLeftRows, a.cols - i);
    pack_left(a.data + i, a.stride, piece.depth, rows, groups);
    multiply_piece<true>({groups, kRegisterRows, kRegisterRows * piece.depth, rows}, piece,
                         c.slice_rows(i, rows));
  }
}

void multiply(ConstMatrix a, bool transpose_a, const detail::PackedBlock& block, size_t col,
              bool add, Matrix c) {
  const size_t pieces = HWY_MAX(size_t{1}, divide_up(block.depth, kMaxDepth));
  const size_t step = divide_up(block.depth, pieces);  // pieces of even depth
  for (size_t p = 0; p < block.depth; p += step) {
    const size_t depth = HWY_MIN(step, block.depth - p);
    const Piece piece{block.panels + col * block.depth + p * kGroup, kGroup * block.depth, depth,
                      add || p > 0};
    if (transpose_a) {
      multiply_transposed(a.slice_rows(p, depth), piece, c);
    } else {
      multiply_piece<false>({a.data + p, a.stride, kRegisterRows * a.stride, a.rows}, piece, c);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace longspan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan::detail {
namespace {
HWY_EXPORT(pack);
HWY_EXPORT(multiply);
}  // namespace

void pack_rows_of(ConstMatrix b, const GemmOptions& options, std::size_t first, std::size_t count,
                  const PackedBlock& block) {
  HWY_DYNAMIC_DISPATCH(pack)(b, options, first, count, block);
}

void multiply_packed(ConstMatrix a, bool transpose_a, const PackedBlock& block, std::size_t col,
                     bool add, Matrix c) {
  HWY_DYNAMIC_DISPATCH(multiply)(a, transpose_a, block, col, add, c);
}

}  // namespace longspan::detail
#endif  // HWY_ONCE
