// Rows of A times a panel: depth × kGroup of B, one row behind the other.

#if defined(LONGSPAN_KERNELS_PANEL_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGSPAN_KERNELS_PANEL_GEMM_INL_H_
#undef LONGSPAN_KERNELS_PANEL_GEMM_INL_H_
#else
#define LONGSPAN_KERNELS_PANEL_GEMM_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

#include "longspan/kernels/gemm/tile_gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {

inline constexpr size_t kRegisterRows = 6;
// What the micro-kernel reads of B, depth × kGroup, stays in the first cache: 16 or 32 KiB.
inline constexpr size_t kMaxDepth = kGroup > 32 ? 128 : 256;

// Rows of A: A(i, p) = data[i·stride + p], or data[i % 6 + (i / 6)·group + p·stride] by columns.
struct LeftRows {
  const float* data;
  size_t stride;
  size_t group;  // from one six of rows to the next
  size_t rows;
};

// One panel's product with the rows of A. The rows of a panel that is not full are `stride` floats
// apart, of which kGroup can be read.
struct Panel {
  const float* b;
  size_t depth;
  size_t width;
  bool add;
  size_t stride = kGroup;
};

// kVectors of a panel that is not full.
template <int kRows, int kVectors, bool kColumns>
HWY_INLINE void multiply_edge(const float* a, size_t a_stride, const Panel& panel, float* c,
                              size_t c_stride) {
  constexpr size_t kCols = kVectors * kVectorLanes;
  HWY_ALIGN float edge[kRegisterRows * kGroup];
  for (size_t i = 0; panel.add && i < kRows; ++i) {
    std::copy_n(c + i * c_stride, panel.width, edge + i * kCols);
    std::fill_n(edge + i * kCols + panel.width, kCols - panel.width, 0.0F);
  }
  const Out out{edge, kCols, panel.add ? Start::kAdd : Start::kZero, nullptr};
  tile_block<kRows, kVectors, kColumns>(a, a_stride, panel.b, panel.stride, panel.depth, out, edge,
                                        0);
  for (size_t i = 0; i < kRows; ++i) {
    std::copy_n(edge + i * kCols, panel.width, c + i * c_stride);
  }
}

template <int kRows, bool kColumns, int kAhead = 0>
HWY_INLINE void multiply_rows(const float* a, size_t a_stride, const Panel& panel, float* c,
                              size_t c_stride, const float* ahead = nullptr) {
  if (panel.width == kGroup) {
    const Out out{c, c_stride, panel.add ? Start::kAdd : Start::kZero, nullptr};
    tile_block<kRows, kGroupVectors, kColumns, kAhead>(a, a_stride, panel.b, kGroup, panel.depth,
                                                       out, c, 0, ahead);
  } else if (panel.width <= kVectorLanes) {
    multiply_edge<kRows, 1, kColumns>(a, a_stride, panel, c, c_stride);
  } else {
    multiply_edge<kRows, kGroupVectors, kColumns>(a, a_stride, panel, c, c_stride);
  }
}

template <bool kColumns>
HWY_NOINLINE void multiply_panel(const LeftRows& left, const Panel& panel, float* c,
                                 size_t c_stride) {
  const float* a = left.data;
  size_t rest = left.rows;
  for (; rest >= kRegisterRows; rest -= kRegisterRows) {
    for (size_t i = 0; i < kRegisterRows; ++i) hwy::Prefetch(c + i * c_stride);
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

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // LONGSPAN_KERNELS_PANEL_GEMM_INL_H_
