// How a product is cut into tasks: by its shape alone, so that the bits of the result do not depend
// on the number of threads. Internal to the kernels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace longspan::detail {

// The output of a product, cut into tiles of at most rows×cols.
struct GemmTiles {
  std::size_t m = 0;
  std::size_t n = 0;
  std::size_t rows = 0;
  std::size_t cols = 0;

  struct Tile {
    std::size_t row;
    std::size_t rows;
    std::size_t col;
    std::size_t cols;
  };

  std::size_t across() const { return (n + cols - 1) / cols; }
  std::size_t count() const { return (m + rows - 1) / rows * across(); }
  Tile operator[](std::size_t index) const {
    const std::size_t row = index / across() * rows;
    const std::size_t col = index % across() * cols;
    return {row, std::min(rows, m - row), col, std::min(cols, n - col)};
  }
};

// Halves the longer side until a tile is some 25 µs of work. The first sixteen tiles may be as
// small as 60×64, so that a weight gradient of 128×128 still feeds several cores; the more there
// are, the larger they stay, to reuse what they load. Sides are multiples of the micro-kernels' 6
// or 24 rows and 16 or 32 columns.
inline GemmTiles gemm_tiles(std::size_t m, std::size_t n, std::size_t k) {
  constexpr std::size_t kWork = std::size_t{1} << 20U;  // MACCs
  constexpr std::size_t kRowUnit = 24;
  constexpr std::size_t kColUnit = 32;
  const auto half = [](std::size_t side, std::size_t unit) {
    return (side + 2 * unit - 1) / (2 * unit) * unit;
  };
  GemmTiles tiles{m, n, std::max<std::size_t>(m, 1), std::max<std::size_t>(n, 1)};
  while (tiles.rows * tiles.cols * k > 2 * kWork) {
    const std::size_t count = tiles.count();
    const std::size_t least_rows = count < 16 ? 60 : count < 64 ? 120 : 192;
    const std::size_t least_cols = count < 16 ? 64 : count < 64 ? 192 : 256;
    if (tiles.rows >= tiles.cols && tiles.rows >= 2 * least_rows) {
      tiles.rows = half(tiles.rows, kRowUnit);
    } else if (tiles.cols >= 2 * least_cols) {
      tiles.cols = half(tiles.cols, kColUnit);
    } else if (tiles.rows >= 2 * least_rows) {
      tiles.rows = half(tiles.rows, kRowUnit);
    } else {
      break;
    }
  }
  return tiles;
}

}  // namespace longspan::detail
