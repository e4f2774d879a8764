// B is copied, a block at a time, into panels that the micro-kernel reads in order. Read in place,
// rows a power of two apart would fall on the same few sets of the cache. A gets by without a copy,
// because six of its rows or columns are all that is read at a time, unless it is transposed and
// its rows are so far apart that these few columns fill the cache too.

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/packed_gemm.cc"
#include <hwy/foreach_target.h>
// clang-format on

#include "longspan/kernels/packed_gemm.h"

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cassert>

#include "longspan/kernels/tile_gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace HWY_NAMESPACE {

constexpr size_t kRegisterRows = 6;
// A panel, depth × kGroup, stays in the first cache (16 or 32 KiB), a block in the second (128
// KiB).
constexpr size_t kMaxDepth = kGroup > 32 ? 128 : 256;
constexpr size_t kBlockFloats = 32768;
constexpr size_t kBlockCols = kBlockFloats / kMaxDepth / kGroup * kGroup;
constexpr size_t kLeftFloats = 24576;
constexpr size_t kLeftRows = kLeftFloats / kMaxDepth / kRegisterRows * kRegisterRows;
constexpr size_t kSameSet = 1024;  // floats: addresses 4 KiB apart share a set

constexpr size_t kAhead = 8;  // rows of B that are on their way while one is packed

// Rows far apart defeat the prefetcher of the CPU.
HWY_INLINE void prefetch_row(const float* row, size_t cols) {
  constexpr size_t kLine = 16;
  for (size_t c = 0; c < cols; c += kLine) hwy::Prefetch(row + c);
}

// panels[j / kGroup][p][j % kGroup] = α·B[p, j]; the last panel is filled up with zeros.
void pack(const float* b, size_t stride, size_t depth, size_t cols, float alpha,
          float* HWY_RESTRICT panels) {
  const DF d;
  const VF scale = hn::Set(d, alpha);
  const size_t whole = cols / kGroup * kGroup;
  for (size_t p = 0; p < depth; ++p) {
    const float* row = b + p * stride;
    float* to = panels + p * kGroup;
    if (p + kAhead < depth) prefetch_row(row + kAhead * stride, cols);
    for (size_t j = 0; j < whole; j += kGroup) {
      for (size_t v = 0; v < kGroup; v += kVectorLanes) {
        hn::StoreU(hn::Mul(scale, hn::LoadU(d, row + j + v)), d, to + v);
      }
      to += depth * kGroup;
    }
    if (whole == cols) continue;
    for (size_t j = 0; j < kGroup; ++j) to[j] = whole + j < cols ? alpha * row[whole + j] : 0.0F;
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

// Rows of A: A(i, p) = data[i·stride + p], or data[i % 6 + (i / 6)·group + p·stride] by columns.
struct LeftRows {
  const float* data;
  size_t stride;
  size_t group;  // from one six of rows to the next
  size_t rows;
};

// One panel's product with the rows of A. A last panel that is not full goes through `edge`.
struct Panel {
  const float* b;
  size_t depth;
  size_t width;
  bool add;
};

template <int kRows, bool kColumns>
HWY_INLINE void multiply_rows(const float* a, size_t a_stride, const Panel& panel, float* c,
                              size_t c_stride) {
  if (panel.width == kGroup) {
    const Out out{c, c_stride, panel.add ? Start::kAdd : Start::kZero, nullptr};
    tile_block<kRows, kGroupVectors, kColumns>(a, a_stride, panel.b, kGroup, panel.depth, out, c,
                                               0);
    return;
  }
  HWY_ALIGN float edge[kRegisterRows * kGroup];
  const Out out{edge, kGroup, Start::kZero, nullptr};
  tile_block<kRows, kGroupVectors, kColumns>(a, a_stride, panel.b, kGroup, panel.depth, out, edge,
                                             0);
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t j = 0; j < panel.width; ++j) {
      float& to = c[i * c_stride + j];
      to = edge[i * kGroup + j] + (panel.add ? to : 0.0F);
    }
  }
}

template <bool kColumns>
HWY_NOINLINE void multiply_panel(const LeftRows& left, const Panel& panel, float* c,
                                 size_t c_stride) {
  const float* a = left.data;
  size_t rest = left.rows;
  for (; rest >= kRegisterRows; rest -= kRegisterRows) {
    multiply_rows<kRegisterRows, kColumns>(a, left.stride, panel, c, c_stride);
    a += left.group;
    c += kRegisterRows * c_stride;
  }
  switch (rest) {
    case 5:
      return multiply_rows<5, kColumns>(a, left.stride, panel, c, c_stride);
    case 4:
      return multiply_rows<4, kColumns>(a, left.stride, panel, c, c_stride);
    case 3:
      return multiply_rows<3, kColumns>(a, left.stride, panel, c, c_stride);
    case 2:
      return multiply_rows<2, kColumns>(a, left.stride, panel, c, c_stride);
    case 1:
      return multiply_rows<1, kColumns>(a, left.stride, panel, c, c_stride);
    default:
      return;
  }
}

// C[:, first …] += A[:, p …]·block, for one packed block of B, `cols` wide.
struct Block {
  const float* panels;
  size_t depth;
  size_t cols;
  bool add;
};

template <bool kColumns>
HWY_INLINE void multiply_block(const LeftRows& left, const Block& block, float* c,
                               size_t c_stride) {
  for (size_t j = 0; j < block.cols; j += kGroup) {
    const Panel panel{block.panels + j * block.depth, block.depth, HWY_MIN(kGroup, block.cols - j),
                      block.add};
    multiply_panel<kColumns>(left, panel, c + j, c_stride);
  }
}

HWY_INLINE void multiply_transposed(ConstMatrix a, const Block& block, float* c, size_t c_stride) {
  if (a.stride % kSameSet != 0) {
    multiply_block<true>({a.data, a.stride, kRegisterRows, a.cols}, block, c, c_stride);
    return;
  }
  HWY_ALIGN float groups[kLeftFloats];
  for (size_t i = 0; i < a.cols; i += kLeftRows) {
    const size_t rows = HWY_MIN(kLeftRows, a.cols - i);
    pack_left(a.data + i, a.stride, block.depth, rows, groups);
    multiply_block<true>({groups, kRegisterRows, kRegisterRows * block.depth, rows}, block,
                         c + i * c_stride, c_stride);
  }
}

void packed_product(ConstMatrix a, ConstMatrix b, Matrix c, const GemmOptions& o) {
  HWY_ALIGN float panels[kBlockFloats];
  const size_t pieces = (b.rows + kMaxDepth - 1) / kMaxDepth;
  const size_t step = (b.rows + pieces - 1) / pieces;  // pieces of even depth
  for (size_t p = 0; p < b.rows; p += step) {
    const size_t depth = HWY_MIN(step, b.rows - p);
    for (size_t first = 0; first < c.cols; first += kBlockCols) {
      const size_t cols = HWY_MIN(kBlockCols, c.cols - first);
      pack(b.row_data(p) + first, b.stride, depth, cols, o.alpha, panels);
      const Block block{panels, depth, cols, o.accumulate || p > 0};
      float* to = c.data + first;
      if (o.transpose_a) {
        multiply_transposed(a.slice_rows(p, depth), block, to, c.stride);
      } else {
        multiply_block<false>({a.data + p, a.stride, kRegisterRows * a.stride, c.rows}, block, to,
                              c.stride);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace longspan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan::detail {
namespace {
HWY_EXPORT(packed_product);
}  // namespace

void packed_gemm(ConstMatrix a, ConstMatrix b, Matrix c, const GemmOptions& options) {
  assert(!options.transpose_b && b.rows > 0);
  HWY_DYNAMIC_DISPATCH(packed_product)(a, b, c, options);
}

}  // namespace longspan::detail
#endif  // HWY_ONCE
