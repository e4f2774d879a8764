// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/gemm/packed_weights.cc"
#include <hwy/foreach_target.h>
// clang-format on

#include "longspan/kernels/gemm/packed_weights.h"

#include <hwy/highway.h>

#include <algorithm>

#include "longspan/base/error.h"
#include "longspan/base/integers.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/gemm/panel_gemm-inl.h"
#include "longspan/kernels/thread_space.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace HWY_NAMESPACE {

size_t weights_group() { return kGroup; }

// `width` rows to their panel, or back; `copy` holds as many.
void turn_group(float* group, size_t width, size_t depth, bool pack, float* copy) {
  std::copy_n(group, width * depth, copy);
  if (pack) {
    transpose<false>(copy, depth, width, depth, 1.0F, group, width);
  } else {
    transpose<false>(copy, width, depth, width, 1.0F, group, depth);
  }
}

// Rows of x in blocks of at most six, as even as can be: two of four instead of six and two.
struct RowBlocks {
  explicit RowBlocks(size_t rows) : count(divide_up(rows, kRegisterRows)), all(rows) {}
  size_t begin(size_t block) const { return block * all / count; }

  size_t count;
  size_t all;
};

template <int kAhead>
HWY_INLINE void multiply_block(size_t rows, const float* a, size_t a_stride, const Panel& panel,
                               float* c, size_t c_stride, const float* ahead) {
  switch (rows) {
    case 6:
      return multiply_rows<6, false, kAhead>(a, a_stride, panel, c, c_stride, ahead);
    case 5:
      return multiply_rows<5, false, kAhead>(a, a_stride, panel, c, c_stride, ahead);
    case 4:
      return multiply_rows<4, false, kAhead>(a, a_stride, panel, c, c_stride, ahead);
    case 3:
      return multiply_rows<3, false, kAhead>(a, a_stride, panel, c, c_stride, ahead);
    case 2:
      return multiply_rows<2, false, kAhead>(a, a_stride, panel, c, c_stride, ahead);
    default:
      return multiply_rows<1, false, kAhead>(a, a_stride, panel, c, c_stride, ahead);
  }
}

// Floats between what a single block of rows reads and what it brings: memory answers in the time of
// some kilobytes, and the prefetcher of the CPU ends at every page.
constexpr size_t kFarAhead = 2048;

// A piece of a panel times all rows of x. The first blocks of rows bring the piece behind it into
// the second cache, so that memory is busy while the others compute.
HWY_NOINLINE void multiply_piece(const RowBlocks& blocks, ConstMatrix x, const Panel& panel,
                                 float* c, size_t c_stride) {
  constexpr size_t kLines = kGroup / kLineFloats;  // of a row of a panel; 0: half of one
  const float* next = panel.b + panel.depth * kGroup;
  size_t brought = 0;
  for (size_t block = 0; block < blocks.count; ++block) {
    const size_t row = blocks.begin(block);
    const size_t rows = blocks.begin(block + 1) - row;
    const float* a = x.row_data(row);
    float* to = c + row * c_stride;
    const float* ahead = next + brought * kLineFloats * panel.depth;
    if (blocks.count == 1) {
      multiply_block<kLines>(rows, a, x.stride, panel, to, c_stride, panel.b + kFarAhead);
    } else if (brought >= kLines) {
      multiply_block<0>(rows, a, x.stride, panel, to, c_stride, nullptr);
    } else if (kLines > 2 && blocks.count < 4) {
      multiply_block<2>(rows, a, x.stride, panel, to, c_stride, ahead);
      brought += 2;
    } else {
      multiply_block<1>(rows, a, x.stride, panel, to, c_stride, ahead);
      brought += 1;
    }
  }
}

// Whole groups of columns. Each panel is read from end to end, in pieces that several passes find in
// the first cache.
HWY_INLINE void multiply_groups(const RowBlocks& blocks, ConstMatrix x, const float* panels,
                                Matrix y) {
  const size_t pieces = blocks.count == 1 ? 1 : divide_up(x.cols, kMaxDepth);
  const size_t step = divide_up(x.cols, pieces);
  const float* panel = panels;
  for (size_t j = 0; j < y.cols; j += kGroup) {
    for (size_t p = 0; p < x.cols; p += step) {
      const size_t depth = HWY_MIN(step, x.cols - p);
      multiply_piece(blocks, x.slice_cols(p, depth), {panel, depth, kGroup, p > 0}, y.data + j,
                     y.stride);
      panel += depth * kGroup;
    }
  }
}

// All rows of x times a panel, without haste.
HWY_INLINE void multiply_once(const RowBlocks& blocks, ConstMatrix x, const Panel& panel,
                              Matrix y) {
  for (size_t block = 0; block < blocks.count; ++block) {
    const size_t row = blocks.begin(block);
    multiply_block<0>(blocks.begin(block + 1) - row, x.row_data(row), x.stride, panel,
                      y.row_data(row), y.stride, nullptr);
  }
}

// The last group of columns, if it is not whole: its panel is as wide as it is. A row of the panel is
// read with what follows it, which the last ones lack: they are copied.
HWY_INLINE void multiply_rest(const RowBlocks& blocks, ConstMatrix x, const float* panel,
                              Matrix y) {
  const size_t width = y.cols;
  const size_t last = HWY_MIN(divide_up(kGroup, width), x.cols);
  const size_t first = x.cols - last;
  if (first > 0) {
    multiply_once(blocks, x.slice_cols(0, first), {panel, first, width, false, width}, y);
  }
  HWY_ALIGN float end[kGroup] = {};
  for (size_t p = first; p < x.cols; ++p) {
    std::copy_n(panel + p * width, width, end);
    multiply_once(blocks, x.slice_cols(p, 1), {end, 1, width, p > 0}, y);
  }
}

void multiply_weights(ConstMatrix x, ConstMatrix w, size_t col, Matrix y) {
  const size_t packed = w.rows / kGroup * kGroup;
  const size_t whole = col < packed ? HWY_MIN(y.cols, packed - col) / kGroup * kGroup : 0;
  const RowBlocks blocks(x.rows);
  multiply_groups(blocks, x, w.row_data(col), y.slice_cols(0, whole));
  if (whole < y.cols) {
    multiply_rest(blocks, x, w.row_data(packed), y.slice_cols(whole, y.cols - whole));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace longspan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {
namespace {

HWY_EXPORT(weights_group);
HWY_EXPORT(turn_group);
HWY_EXPORT(multiply_weights);

void turn_weights(Matrix w, bool pack) {
  require(w.contiguous(), "[gemm] weights of {} columns, {} apart; need them side by side", w.cols,
          w.stride);
  const std::size_t group = HWY_DYNAMIC_DISPATCH(weights_group)();
  parallel_for(divide_up(w.rows, group), [&](std::size_t task, std::size_t) {
    const std::size_t width = std::min(group, w.rows - task * group);
    float* copy = detail::thread_space(width * w.cols);
    HWY_DYNAMIC_DISPATCH(turn_group)(w.row_data(task * group), width, w.cols, pack, copy);
  });
}

}  // namespace

void pack_weights(Matrix w) { turn_weights(w, true); }
void unpack_weights(Matrix w) { turn_weights(w, false); }

namespace detail {

void multiply_weights(ConstMatrix x, ConstMatrix w, std::size_t col, Matrix y) {
  HWY_DYNAMIC_DISPATCH(multiply_weights)(x, w, col, y);
}

void copy_packed_row(ConstMatrix w, std::size_t row, float* to) {
  const std::size_t group = HWY_DYNAMIC_DISPATCH(weights_group)();
  const std::size_t first = row / group * group;
  const std::size_t width = std::min(group, w.rows - first);
  const float* from = w.row_data(first) + (row - first);
  for (std::size_t p = 0; p < w.cols; ++p) to[p] = from[p * width];
}

}  // namespace detail
}  // namespace longspan
#endif  // HWY_ONCE
