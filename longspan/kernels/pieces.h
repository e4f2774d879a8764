// How elementwise work is cut: into pieces of a fixed number of elements, whatever the number of
// threads. Internal to the kernels.
#pragma once

#include <algorithm>
#include <cstddef>

#include "longspan/base/parallel.h"

namespace longspan::detail {

// Elements per piece: some microseconds of work, and the size below which threads do not pay.
inline constexpr std::size_t kPieceElements = 16384;

// Calls body(begin, end) for pieces of [0, n); a single piece runs on the calling thread.
template <class Body>
void in_pieces(std::size_t n, std::size_t grain, Body&& body) {
  if (n == 0) return;
  if (n <= grain) return body(std::size_t{0}, n);
  parallel_ranges(n, grain, body);
}

inline std::size_t rows_per_piece(std::size_t cols) {
  return std::max<std::size_t>(1, kPieceElements / std::max<std::size_t>(1, cols));
}

// Calls body(row, col, count) for runs that together cover rows×cols: whole rows, or if `flat` (no
// view has gaps) runs that start in row 0 and ignore where rows end.
template <class Body>
void in_runs(std::size_t rows, std::size_t cols, bool flat, Body&& body) {
  if (flat) {
    in_pieces(rows * cols, kPieceElements, [&](std::size_t begin, std::size_t end) {
      body(std::size_t{0}, begin, end - begin);
    });
    return;
  }
  in_pieces(rows, rows_per_piece(cols), [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) body(r, std::size_t{0}, cols);
  });
}

// Calls body(begin, end) for blocks of columns, for sums that run down the rows. A block is four
// vectors of 512 bits, so that neighbours share no cache line of an aligned row.
inline constexpr std::size_t kBlockColumns = 64;
template <class Body>
void in_column_blocks(std::size_t rows, std::size_t cols, Body&& body) {
  if (rows * cols <= kPieceElements) {
    for (std::size_t c = 0; c < cols; c += kBlockColumns)
      body(c, std::min(c + kBlockColumns, cols));
    return;
  }
  parallel_ranges(cols, kBlockColumns, body);
}

}  // namespace longspan::detail
