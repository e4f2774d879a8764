// How elementwise work is cut: into pieces of a fixed number of elements, whatever the number of
// threads. Internal to the kernels.
#pragma once

#include <algorithm>
#include <cstddef>

#include "longspan/base/integers.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/thread_space.h"

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

// sums[j] += Σ over rows, for `width` sums: body(begin, end, partial) adds those of the rows
// begin … end − 1, which are some that a thread wrote, and add(partial) adds up the parts in order.
template <class Body, class Add>
void in_row_sums(std::size_t rows, std::size_t cols, std::size_t width, Body&& body, Add&& add) {
  constexpr std::size_t kMostParts = 256;
  const std::size_t step =
      std::max({rows_per_piece(cols), std::size_t{128}, divide_up(rows, kMostParts)});
  const std::size_t parts = divide_up(rows, step);
  float* sums = thread_space(parts * width);
  parallel_ranges(rows, step, [&](std::size_t begin, std::size_t end) {
    float* partial = sums + begin / step * width;
    std::fill_n(partial, width, 0.0F);
    body(begin, end, partial);
  });
  for (std::size_t i = 0; i < parts; ++i) add(sums + i * width);
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
