// Plain loops: moves of short runs, beside a product that reads each of them d times.
#include "longspan/kernels/rows/unfold.h"

#include <algorithm>

#include "longspan/base/call.h"
#include "longspan/base/error.h"
#include "longspan/kernels/pieces.h"

namespace longspan {

namespace {

// Taps of all places along one side that are inside.
std::uint64_t taps_inside(std::size_t size, std::size_t taps, std::size_t pad, std::size_t stride) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < Window::places(size, taps, pad, stride); ++i) {
    const std::size_t first = i * stride;
    const std::size_t begin = std::max(first, pad);
    const std::size_t end = std::min(first + taps, size + pad);
    if (end > begin) count += end - begin;
  }
  return count;
}

void require_columns(const Window& w, ConstMatrix columns) {
  require(w.stride > 0 && columns.rows == w.rows() && columns.cols == w.cols(),
          "[unfold] columns of {}x{}; need {}x{}", columns.rows, columns.cols, w.rows(), w.cols());
}

void require_rows(const Window& w, ConstMatrix x) {
  require(x.rows == w.positions() && x.cols == w.channels,
          "[unfold] {} rows of {} channels; need {} of {}", x.rows, x.cols, w.positions(),
          w.channels);
}

// Where an element lies: x[b, c, y, z] is at b·batch + c·channel + (y·width + z)·position.
struct Layout {
  std::size_t batch;
  std::size_t channel;
  std::size_t position;
};

void unfold_one(const Window& w, const Layout& at, const float* x, std::size_t row, float* to) {
  const std::size_t j = row % w.out_width();
  const std::size_t i = row / w.out_width() % w.out_height();
  const float* const own = x + row / (w.out_width() * w.out_height()) * at.batch;
  for (std::size_t c = 0; c < w.channels; ++c) {
    for (std::size_t u = 0; u < w.tap_rows; ++u) {
      const std::size_t y = i * w.stride + u;
      const bool row_inside = y >= w.pad_rows && y < w.height + w.pad_rows;
      for (std::size_t v = 0; v < w.tap_cols; ++v) {
        const std::size_t z = j * w.stride + v;
        const bool inside = row_inside && z >= w.pad_cols && z < w.width + w.pad_cols;
        *to++ =
            inside
                ? own[c * at.channel + ((y - w.pad_rows) * w.width + z - w.pad_cols) * at.position]
                : 0.0F;
      }
    }
  }
}

void unfold(const Window& w, const Layout& at, const float* x, Matrix columns) {
  const Called called([&] { return move_call(columns.rows, columns.cols); });
  if (called.dry()) return;
  detail::in_pieces(columns.rows, detail::rows_per_piece(columns.cols),
                    [&](std::size_t begin, std::size_t end) {
                      for (std::size_t row = begin; row < end; ++row) {
                        unfold_one(w, at, x, row, columns.row_data(row));
                      }
                    });
}

// Every place that reads a position gives back what it got for it, in the order of the places.
void fold_one(const Window& w, ConstMatrix dcolumns, std::size_t position, float* dx) {
  const std::size_t z = position % w.width + w.pad_cols;
  const std::size_t y = position / w.width % w.height + w.pad_rows;
  const std::size_t first = position / (w.width * w.height) * w.out_height() * w.out_width();
  std::fill_n(dx, w.channels, 0.0F);
  for (std::size_t i = 0; i < w.out_height() && i * w.stride <= y; ++i) {
    const std::size_t u = y - i * w.stride;
    if (u >= w.tap_rows) continue;
    // The first place that still reaches z.
    const std::size_t from = z < w.tap_cols ? 0 : (z - w.tap_cols) / w.stride + 1;
    for (std::size_t j = from; j < w.out_width() && j * w.stride <= z; ++j) {
      const float* const row =
          dcolumns.row_data(first + i * w.out_width() + j) + u * w.tap_cols + (z - j * w.stride);
      for (std::size_t c = 0; c < w.channels; ++c) dx[c] += row[c * w.tap_rows * w.tap_cols];
    }
  }
}

}  // namespace

std::uint64_t Window::inside() const {
  return std::uint64_t{batch} * channels * taps_inside(height, tap_rows, pad_rows, stride) *
         taps_inside(width, tap_cols, pad_cols, stride);
}

void unfold_planes(const Window& w, const float* x, Matrix columns) {
  require_columns(w, columns);
  const std::size_t plane = w.height * w.width;
  unfold(w, {.batch = w.channels * plane, .channel = plane, .position = 1}, x, columns);
}

void unfold_rows(const Window& w, ConstMatrix x, Matrix columns) {
  require_columns(w, columns);
  require_rows(w, x);
  unfold(w, {.batch = w.height * w.width * x.stride, .channel = 1, .position = x.stride}, x.data,
         columns);
}

void fold_rows(const Window& w, ConstMatrix dcolumns, Matrix dx) {
  require_columns(w, dcolumns);
  require_rows(w, dx);
  const Called called([&] {
    Call call = row_call(Op::kAdd, {}, dcolumns.rows, dcolumns.cols, Kind::kAdd, 0, 0);
    call.work = flops(Kind::kAdd, w.inside(), 4 * (dcolumns.size() + 2 * dx.size()));
    return call;
  });
  if (called.dry()) return;
  const std::size_t taps = w.tap_rows * w.tap_cols;
  detail::in_pieces(dx.rows, detail::rows_per_piece(dx.cols * taps),
                    [&](std::size_t begin, std::size_t end) {
                      for (std::size_t r = begin; r < end; ++r) {
                        fold_one(w, dcolumns, r, dx.row_data(r));
                      }
                    });
}

}  // namespace longspan
