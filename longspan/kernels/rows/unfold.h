// What a convolution reads, laid out as the rows of a matrix, so that a product with its weights
// [out, channels·taps] is the convolution:
//
//   columns[(b, i, j), (c, u, v)] = x[b, c, i·s + u − p, j·s + v − q]       0 outside of x
//   dx[b, c, y, z] = Σ dcolumns[(b, i, j), (c, u, v)]  over i·s + u − p = y, j·s + v − q = z
//
// Images have height and width; sound has a height of 1. What is outside is in the columns all the
// same, and a product multiplies it. Unfolding counts as a move; folding is metered as kAdd, 1 per
// element of the columns that is not outside.
#pragma once

#include <cstddef>
#include <cstdint>

#include "longspan/base/view.h"

namespace longspan {

struct Window {
  std::size_t batch = 0;
  std::size_t channels = 0;
  std::size_t height = 1;
  std::size_t width = 0;
  std::size_t tap_rows = 1;
  std::size_t tap_cols = 1;
  std::size_t stride = 1;    // s
  std::size_t pad_rows = 0;  // p
  std::size_t pad_cols = 0;  // q

  static std::size_t places(std::size_t size, std::size_t taps, std::size_t pad,
                            std::size_t stride) {
    return size + 2 * pad < taps ? 0 : (size + 2 * pad - taps) / stride + 1;
  }
  std::size_t out_height() const { return places(height, tap_rows, pad_rows, stride); }
  std::size_t out_width() const { return places(width, tap_cols, pad_cols, stride); }
  std::size_t rows() const { return batch * out_height() * out_width(); }
  std::size_t cols() const { return channels * tap_rows * tap_cols; }
  std::size_t positions() const { return batch * height * width; }
  // Elements of the columns that are not outside.
  std::uint64_t inside() const;
};

// x[b, c, y, z] of planes: [batch, channels, height, width], one behind the other.
void unfold_planes(const Window& window, const float* x, Matrix columns);
// Of rows: [batch·height·width, channels].
void unfold_rows(const Window& window, ConstMatrix x, Matrix columns);
// dx, of rows, from the columns'.
void fold_rows(const Window& window, ConstMatrix dcolumns, Matrix dx);

}  // namespace longspan
