// How a product is run, for those who finish its tiles themselves. Internal to the kernels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "longspan/base/integers.h"
#include "longspan/base/parallel.h"
#include "longspan/base/view.h"
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/kernels/gemm/gemm_tiles.h"
#include "longspan/kernels/gemm/packed_gemm.h"
#include "longspan/kernels/thread_space.h"

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

// Rows or columns of what is stored.
inline ConstMatrix slice(ConstMatrix x, bool rows, std::size_t first, std::size_t count) {
  return rows ? x.slice_rows(first, count) : x.slice_cols(first, count);
}
inline ConstMatrix left_rows(ConstMatrix a, const GemmOptions& o, std::size_t first,
                             std::size_t count) {
  return slice(a, !o.transpose_a, first, count);
}
inline ConstMatrix right_cols(ConstMatrix b, const GemmOptions& o, std::size_t first,
                              std::size_t count) {
  return slice(b, o.transpose_b, first, count);
}

// A product, or what some rows of op(B) give of it.
struct GemmPart {
  ConstMatrix a;
  ConstMatrix b;
  Matrix c;
  bool add;
};

// Products of the same shape at once; only their inner dimensions may differ, and the first is the
// longest. For each block of B the threads pack together and then share out the tiles of C, so that
// each element is copied once. Threads next to each other work on the same part.
template <class Finish>
class PackedProducts {
 public:
  // `space` holds panel_floats(gemm_blocks(n, k)) for each part.
  PackedProducts(std::span<const GemmPart> parts, const GemmOptions& options, float* space,
                 Finish finish)
      : parts_(parts),
        o_(options),
        space_(space),
        finish_(finish),
        shape_(shape_of(parts[0].a, parts[0].b, options)),
        blocks_(gemm_blocks(shape_.n, shape_.k)) {}

  void run() {
    for (depth_ = 0; depth_ < shape_.k; depth_ += blocks_.depth) {
      for (col_ = 0; col_ < shape_.n; col_ += blocks_.cols) {
        pack();
        multiply();
      }
    }
  }

 private:
  // The current block of a part.
  struct Block {
    ConstMatrix left;
    ConstMatrix right;
    PackedBlock packed;
  };
  Block block(std::size_t index) const {
    const GemmPart& part = parts_[index];
    const std::size_t k = shape_of(part.a, part.b, o_).k;
    const std::size_t first = std::min(depth_, k);
    const std::size_t depth = std::min(blocks_.depth, k - first);
    return {slice(part.a, o_.transpose_a, first, depth),
            right_cols(slice(part.b, !o_.transpose_b, first, depth), o_, col_, cols()),
            {space_ + index * panel_floats(blocks_), depth, cols()}};
  }
  std::size_t cols() const { return std::min(blocks_.cols, shape_.n - col_); }

  void pack() const {
    constexpr std::size_t kRows = kPanelCols;  // of a task
    const std::size_t tasks = divide_up(o_.transpose_b ? cols() : blocks_.depth, kRows);
    parallel_for(parts_.size() * tasks, [&](std::size_t task, std::size_t) {
      const Block b = block(task / tasks);
      const std::size_t row = std::min(task % tasks * kRows, b.right.rows);
      pack_rows_of(b.right, o_, row, std::min(kRows, b.right.rows - row), b.packed);
    });
  }

  void multiply() const {
    const GemmTiles tiles = gemm_tiles(shape_.m, cols(), blocks_.depth);
    parallel_for(parts_.size() * tiles.count(), [&](std::size_t task, std::size_t) {
      const std::size_t index = task / tiles.count();
      const auto t = tiles[task % tiles.count()];
      const Block b = block(index);
      const Matrix tile =
          parts_[index].c.slice_rows(t.row, t.rows).slice_cols(col_ + t.col, t.cols);
      multiply_packed(left_rows(b.left, o_, t.row, t.rows), o_.transpose_a, b.packed, t.col,
                      parts_[index].add || depth_ > 0, tile);
      if (depth_ + blocks_.depth >= shape_.k) finish_(tile, t.row, col_ + t.col);
    });
  }

  std::span<const GemmPart> parts_;
  const GemmOptions& o_;
  float* space_;
  Finish finish_;
  GemmShape shape_;
  GemmBlocks blocks_;
  std::size_t depth_ = 0;  // where the current block begins
  std::size_t col_ = 0;
};

// C = α·op(A)·op(B), or +=; finish(tile of C, row, col) follows each tile at once, on its thread.
template <class Finish>
void run_gemm(ConstMatrix a, ConstMatrix b, Matrix c, const GemmOptions& o, Finish finish) {
  const GemmShape s = shape_of(a, b, o);
  if (s.m == 0 || s.n == 0) return;
  if (packing_pays(s, o)) {
    const GemmPart whole{a, b, c, o.add};
    float* space = thread_space(panel_floats(gemm_blocks(s.n, s.k)));
    return PackedProducts({&whole, 1}, o, space, finish).run();
  }
  const GemmTiles tiles = gemm_tiles(s.m, s.n, s.k, /*columns_first=*/true);
  parallel_for(tiles.count(), [&](std::size_t index, std::size_t) {
    const auto t = tiles[index];
    const Matrix tile = c.slice_rows(t.row, t.rows).slice_cols(t.col, t.cols);
    library_gemm(left_rows(a, o, t.row, t.rows), right_cols(b, o, t.col, t.cols), tile, o);
    finish(tile, t.row, t.col);
  });
}

}  // namespace longspan::detail
