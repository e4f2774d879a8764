// How a product is run, for those who finish its tiles themselves. Internal to the kernels.
#pragma once

#include <algorithm>
#include <cstddef>

#include "longspan/base/parallel.h"
#include "longspan/base/view.h"
#include "longspan/kernels/gemm.h"
#include "longspan/kernels/gemm_tiles.h"
#include "longspan/kernels/packed_gemm.h"

namespace longspan::detail {

// op(A) is m×k, op(B) k×n.
struct GemmShape {
  std::size_t m;
  std::size_t n;
  std::size_t k;
};
inline GemmShape shape_of(ConstMatrix a, ConstMatrix b, const GemmOptions& o) {
  return {o.transpose_a ? a.cols : a.rows, o.transpose_b ? b.rows : b.cols,
          o.transpose_a ? a.rows : a.cols};
}

// Whether enough rows use a copy of B.
bool packing_pays(const GemmShape& shape, const GemmOptions& options);

// By oneDNN, on the calling thread.
void library_gemm(ConstMatrix a, ConstMatrix b, Matrix c, const GemmOptions& options);

inline ConstMatrix left_rows(ConstMatrix a, const GemmOptions& o, std::size_t first,
                             std::size_t count) {
  return o.transpose_a ? a.slice_cols(first, count) : a.slice_rows(first, count);
}
inline ConstMatrix right_cols(ConstMatrix b, const GemmOptions& o, std::size_t first,
                              std::size_t count) {
  return o.transpose_b ? b.slice_rows(first, count) : b.slice_cols(first, count);
}

// The threads pack a block of B together and then share out the tiles of C, so that each element of
// B is copied once.
template <class Finish>
void run_packed(ConstMatrix a, ConstMatrix b, Matrix c, const GemmOptions& o, Finish finish) {
  constexpr std::size_t kPackedRows = 256;  // rows of panels for one task
  const std::size_t k = shape_of(a, b, o).k;
  const GemmBlocks blocks = gemm_blocks(c.cols, k);
  for (std::size_t p = 0; p < k; p += blocks.depth) {
    const std::size_t depth = std::min(blocks.depth, k - p);
    const ConstMatrix left = o.transpose_a ? a.slice_rows(p, depth) : a.slice_cols(p, depth);
    const ConstMatrix right = o.transpose_b ? b.slice_cols(p, depth) : b.slice_rows(p, depth);
    for (std::size_t first = 0; first < c.cols; first += blocks.cols) {
      const std::size_t cols = std::min(blocks.cols, c.cols - first);
      const ConstMatrix part = right_cols(right, o, first, cols);
      const std::size_t panels = (cols + kPanelCols - 1) / kPanelCols;
      const PackedBlock block{packing_space(panels * kPanelCols * depth), depth, cols};
      parallel_ranges(panels, std::max<std::size_t>(1, kPackedRows / depth),
                      [&](std::size_t begin, std::size_t end) {
                        pack_panels(part, o, begin, end - begin, block);
                      });
      const GemmTiles tiles = gemm_tiles(c.rows, cols, depth);
      parallel_for(tiles.count(), [&](std::size_t index, std::size_t) {
        const auto t = tiles[index];
        const Matrix tile = c.slice_rows(t.row, t.rows).slice_cols(first + t.col, t.cols);
        multiply_packed(left_rows(left, o, t.row, t.rows), o.transpose_a, block, t.col,
                        o.accumulate || p > 0, tile);
        if (p + depth == k) finish(tile, t.row, first + t.col);
      });
    }
  }
}

// C = α·op(A)·op(B), or +=; finish(tile of C, row, col) follows each tile at once, on its thread.
template <class Finish>
void run_gemm(ConstMatrix a, ConstMatrix b, Matrix c, const GemmOptions& o, Finish finish) {
  const GemmShape s = shape_of(a, b, o);
  if (s.m == 0 || s.n == 0) return;
  if (packing_pays(s, o)) return run_packed(a, b, c, o, finish);
  const GemmTiles tiles = gemm_tiles(s.m, s.n, s.k);
  parallel_for(tiles.count(), [&](std::size_t index, std::size_t) {
    const auto t = tiles[index];
    const Matrix tile = c.slice_rows(t.row, t.rows).slice_cols(t.col, t.cols);
    library_gemm(left_rows(a, o, t.row, t.rows), right_cols(b, o, t.col, t.cols), tile, o);
    finish(tile, t.row, t.col);
  });
}

}  // namespace longspan::detail
