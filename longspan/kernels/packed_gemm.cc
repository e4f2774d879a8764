// B is copied, a block at a time, into panels that the micro-kernel reads in order. Read in place,
// rows a power of two apart would fall on the same few sets of the cache; A gets by without a copy,
// because six of its rows or columns are all that is read at a time.

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/packed_gemm.cc"
#include <hwy/foreach_target.h>
// clang-format on

#include "longspan/kernels/packed_gemm.h"

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

// panels[j / kGroup][p][j % kGroup] = α·B[p, j]; the last panel is filled up with zeros.
void pack(const float* b, size_t stride, size_t depth, size_t cols, float alpha,
          float* HWY_RESTRICT panels) {
  const DF d;
  const VF scale = hn::Set(d, alpha);
  const size_t whole = cols / kGroup * kGroup;
  for (size_t p = 0; p < depth; ++p) {
    const float* row = b + p * stride;
    float* to = panels + p * kGroup;
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
HWY_NOINLINE void multiply_panel(const float* a, size_t a_stride, const Panel& panel, float* c,
                                 size_t c_stride, size_t rows) {
  const size_t next = kColumns ? 1 : a_stride;
  size_t i = 0;
  for (; i + kRegisterRows <= rows; i += kRegisterRows) {
    multiply_rows<kRegisterRows, kColumns>(a + i * next, a_stride, panel, c + i * c_stride,
                                           c_stride);
  }
  a += i * next;
  c += i * c_stride;
  switch (rows - i) {
    case 5:
      return multiply_rows<5, kColumns>(a, a_stride, panel, c, c_stride);
    case 4:
      return multiply_rows<4, kColumns>(a, a_stride, panel, c, c_stride);
    case 3:
      return multiply_rows<3, kColumns>(a, a_stride, panel, c, c_stride);
    case 2:
      return multiply_rows<2, kColumns>(a, a_stride, panel, c, c_stride);
    case 1:
      return multiply_rows<1, kColumns>(a, a_stride, panel, c, c_stride);
    default:
      return;
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
      for (size_t j = 0; j < cols; j += kGroup) {
        const Panel panel{panels + j * depth, depth, HWY_MIN(kGroup, cols - j),
                          o.accumulate || p > 0};
        float* to = c.data + first + j;
        if (o.transpose_a) {
          multiply_panel<true>(a.row_data(p), a.stride, panel, to, c.stride, c.rows);
        } else {
          multiply_panel<false>(a.data + p, a.stride, panel, to, c.stride, c.rows);
        }
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
