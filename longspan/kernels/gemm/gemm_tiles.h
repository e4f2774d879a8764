// How a product is cut into tasks: by its shape alone, so that the bits of the result do not depend
// on the number of threads. Internal to the kernels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "longspan/base/integers.h"

namespace longspan::detail {

// The output of a product, cut into tiles of at most rows×cols.
struct GemmTiles {
  std::size_t m = 0;
  std::size_t n = 0;
  std::size_t rows = 0;
  std::size_t cols = 0;
  bool down = false;  // neighbours stand one below the other, not side by side

  struct Tile {
    std::size_t row;
    std::size_t rows;
    std::size_t col;
    std::size_t cols;
  };

  std::size_t across() const { return divide_up(n, cols); }
  std::size_t count() const { return divide_up(m, rows) * across(); }
  Tile operator[](std::size_t index) const {
    const std::size_t high = divide_up(m, rows);
    const std::size_t row = (down ? index % high : index / across()) * rows;
    const std::size_t col = (down ? index / high : index % across()) * cols;
    return {row, std::min(rows, m - row), col, std::min(cols, n - col)};
  }
};

// Halves the rows, then the columns, until a tile is some 25 µs of work or there are sixteen of
// them. Above sixteen only rows are halved, and not when they are few: a tile reads all of its
// columns of B again, and what it packs of A serves all of them. Columns come first where each tile
// packs what it needs of B. Sides are multiples of what the micro-kernels compute at a time.
inline GemmTiles gemm_tiles(std::size_t m, std::size_t n, std::size_t k,
                            bool columns_first = false) {
  constexpr std::size_t kWork = std::size_t{1} << 21U;  // MACCs
  constexpr std::size_t kRowUnit = 6;
  constexpr std::size_t kColUnit = 64;
  const auto half = [](std::size_t side, std::size_t unit) {
    return (side + 2 * unit - 1) / (2 * unit) * unit;
  };
  GemmTiles tiles{m, n, std::max<std::size_t>(m, 1), std::max<std::size_t>(n, 1)};
  while (tiles.rows * tiles.cols * k > kWork) {
    const std::size_t count = tiles.count();
    const bool rows = tiles.rows >= (count < 16 ? 96 : 132) && count < 32;
    const bool cols = tiles.cols > kColUnit && count < 16;
    if (!rows && !cols) break;
    if (cols && (columns_first || !rows)) {
      tiles.cols = half(tiles.cols, kColUnit);
    } else {
      tiles.rows = half(tiles.rows, kRowUnit);
    }
  }
  return tiles;
}

inline constexpr std::size_t kRowsOfMemory = 10;  // are computed while a weight arrives

// With packed weights, which are read from memory once: all rows, unless they fill the second cache,
// times so many panels that a thread is worth waking.
inline GemmTiles weight_tiles(std::size_t m, std::size_t n, std::size_t k) {
  constexpr std::size_t kMostRows = 192;
  constexpr std::size_t kUnit = 6;
  constexpr std::size_t kTasks = 64;
  constexpr std::size_t kWork = std::size_t{1} << 19U;  // MACCs; some 6 µs
  GemmTiles tiles{m, n, std::max<std::size_t>(m, 1), 64, /*down=*/true};
  if (m > kMostRows) {
    tiles.rows = round_up(divide_up(m, divide_up(m, kMostRows)), kUnit);
  }
  const std::size_t busy = std::max(tiles.rows, kRowsOfMemory);
  while (tiles.cols < n && (busy * tiles.cols * k < kWork || tiles.across() > kTasks)) {
    tiles.cols *= 2;
  }
  return tiles;
}

// The blocks of B that are packed at a time: at most `depth` rows and `cols` columns.
struct GemmBlocks {
  std::size_t depth;
  std::size_t cols;
};
inline constexpr std::size_t kPanelCols = 64;  // what the widest micro-kernel reads at a time
inline GemmBlocks gemm_blocks(std::size_t n, std::size_t k) {
  constexpr std::size_t kMaxDepth = 1024;
  constexpr std::size_t kMaxFloats = std::size_t{1} << 18U;  // 1 MiB: half of a second cache
  const std::size_t slabs = std::max<std::size_t>(1, divide_up(k, kMaxDepth));
  const std::size_t depth = std::max<std::size_t>(1, divide_up(k, slabs));
  return {depth, std::min(n, kMaxFloats / depth / kPanelCols * kPanelCols)};
}
inline std::size_t panel_floats(const GemmBlocks& blocks) {
  return round_up(blocks.cols, kPanelCols) * blocks.depth;
}

}  // namespace longspan::detail
