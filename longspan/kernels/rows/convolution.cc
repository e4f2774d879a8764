#include "longspan/kernels/rows/convolution.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/rows/convolution.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <array>

#include "longspan/base/call.h"
#include "longspan/base/error.h"
#include "longspan/kernels/loops-inl.h"
#include "longspan/kernels/pieces.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace HWY_NAMESPACE {

// The rows that a row is made of, and the taps that weigh them.
struct Weighed {
  std::array<const float*, kMostTaps> rows;
  std::array<const float*, kMostTaps> taps;
  size_t count = 0;

  HWY_INLINE void add(const float* row, const float* tap) {
    rows[count] = row;
    taps[count++] = tap;
  }
};

HWY_INLINE void weighed_sum(const Weighed& w, const float* start, float* y, size_t n) {
  for_lanes(n, [&](auto io, size_t c) HWY_ATTR {
    V sum = start == nullptr ? hn::Zero(D()) : io.load(start + c);
    for (size_t i = 0; i < w.count; ++i) {
      sum = hn::MulAdd(io.load(w.taps[i] + c), io.load(w.rows[i] + c), sum);
    }
    io.store(sum, y + c);
  });
}

void Convolve(const Convolution& v, ConstMatrix x, Matrix y, size_t begin, size_t end) {
  const size_t back = v.taps.rows - 1;
  for (size_t row = begin; row < end; ++row) {
    const size_t b = row / v.sequences.length;
    const size_t t = row % v.sequences.length;
    if (t >= v.sequences.real(b)) {
      std::fill_n(y.row_data(row), y.cols, 0.0F);
      continue;
    }
    Weighed w;
    for (size_t i = 0; i <= back; ++i) {
      if (t + i >= back) {
        w.add(x.row_data(row + i - back), v.taps.row_data(i));
      } else if (v.before.rows > 0) {
        w.add(v.before.row_data(b * back + t + i), v.taps.row_data(i));
      }
    }
    weighed_sum(w, v.bias, y.row_data(row), y.cols);
  }
}

void ConvolveBackward(const Convolution& v, ConstMatrix dy, Matrix dx, size_t begin, size_t end) {
  const size_t back = v.taps.rows - 1;
  for (size_t row = begin; row < end; ++row) {
    const size_t t = row % v.sequences.length;
    const size_t real = v.sequences.real(row / v.sequences.length);
    Weighed w;
    for (size_t ahead = 0; ahead <= back && t + ahead < real; ++ahead) {
      w.add(dy.row_data(row + ahead), v.taps.row_data(back - ahead));
    }
    weighed_sum(w, nullptr, dx.row_data(row), dx.cols);
  }
}

// The columns begin … end − 1 of all sums.
void ConvolveUpdate(const Convolution& v, ConstMatrix x, ConstMatrix dy, Matrix dtaps, float* dbias,
                    size_t begin, size_t end) {
  const size_t back = v.taps.rows - 1;
  const size_t length = v.sequences.length;
  for (size_t first = 0; first < x.rows; first += length) {
    const size_t real = v.sequences.real(first / length);
    for (size_t i = 0; i <= back; ++i) {
      const size_t shift = back - i;
      if (shift >= real) continue;
      add_down(real - shift, end - begin, dtaps.row_data(i) + begin,
               [&](auto io, size_t t, size_t c) HWY_ATTR {
                 return hn::Mul(io.load(dy.row_data(first + t + shift) + begin + c),
                                io.load(x.row_data(first + t) + begin + c));
               });
    }
    if (dbias == nullptr) continue;
    add_down(real, end - begin, dbias + begin, [&](auto io, size_t t, size_t c) HWY_ATTR {
      return io.load(dy.row_data(first + t) + begin + c);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace longspan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {
namespace {

HWY_EXPORT(Convolve);
HWY_EXPORT(ConvolveBackward);
HWY_EXPORT(ConvolveUpdate);

void require_shapes(const Convolution& v, ConstMatrix x, ConstMatrix y) {
  const std::size_t batch = v.sequences.length == 0 ? 0 : x.rows / v.sequences.length;
  require(v.taps.rows >= 1 && v.taps.rows <= kMostTaps && v.taps.cols == x.cols,
          "[convolution] {}×{} taps; need 1 to {} of {}", v.taps.rows, v.taps.cols, kMostTaps,
          x.cols);
  require(x.rows == batch * v.sequences.length && y.rows == x.rows && y.cols == x.cols,
          "[convolution] {}×{} and {}×{} in sequences of {}; need whole sequences of one width",
          x.rows, x.cols, y.rows, y.cols, v.sequences.length);
  require(v.before.rows == 0 || v.before.rows == batch * (v.taps.rows - 1),
          "[convolution] {} rows before; need {}", v.before.rows, batch * (v.taps.rows - 1));
}

Call convolution_call(const Convolution& v, ConstMatrix x, bool adds_bias) {
  std::uint64_t real = 0;
  for (std::size_t b = 0; b * v.sequences.length < x.rows; ++b) real += v.sequences.real(b);
  // Timed as what it does to memory: as many additions of rows as there are taps.
  Call call = row_call(Op::kAdd, {}, x.rows * v.taps.rows, x.cols, Kind::kAdd, 0, 0);
  call.work = flops(Kind::kAdd, adds_bias ? real * x.cols : 0, 8 * std::uint64_t{x.rows} * x.cols);
  call.work.maccs = v.taps.rows * real * x.cols;
  return call;
}

}  // namespace

void convolve(const Convolution& v, ConstMatrix x, Matrix y) {
  require_shapes(v, x, y);
  const Called called([&] { return convolution_call(v, x, v.bias != nullptr); });
  if (called.dry()) return;
  detail::in_pieces(y.rows, detail::rows_per_piece(y.cols),
                    [&](std::size_t begin, std::size_t end) {
                      HWY_DYNAMIC_DISPATCH(Convolve)(v, x, y, begin, end);
                    });
}

void convolve_backward(const Convolution& v, ConstMatrix dy, Matrix dx) {
  require_shapes(v, dy, dx);
  const Called called([&] { return convolution_call(v, dy, false); });
  if (called.dry()) return;
  detail::in_pieces(dx.rows, detail::rows_per_piece(dx.cols),
                    [&](std::size_t begin, std::size_t end) {
                      HWY_DYNAMIC_DISPATCH(ConvolveBackward)(v, dy, dx, begin, end);
                    });
}

void convolve_update(const Convolution& v, ConstMatrix x, ConstMatrix dy, Matrix dtaps,
                     float* dbias) {
  require_shapes(v, x, dy);
  const Called called([&] { return convolution_call(v, x, dbias != nullptr); });
  if (called.dry()) return;
  detail::in_column_blocks(x.rows, x.cols, [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(ConvolveUpdate)(v, x, dy, dtaps, dbias, begin, end);
  });
}

void keep_last_rows(std::size_t length, ConstMatrix x, Matrix before) {
  const std::size_t batch = length == 0 ? 0 : x.rows / length;
  require(batch > 0 && before.rows % batch == 0 && before.cols == x.cols,
          "[convolution] {}×{} kept of {}×{}; need as many for each sequence", before.rows,
          before.cols, x.rows, x.cols);
  const Called called([&] { return move_call(before.rows, before.cols); });
  if (called.dry()) return;
  const std::size_t kept = before.rows / batch;
  const std::size_t fresh = std::min(kept, length);
  for (std::size_t b = 0; b < batch; ++b) {
    for (std::size_t i = 0; i < kept; ++i) {
      const float* from = i + fresh < kept ? before.row_data(b * kept + i + fresh)
                                           : x.row_data(b * length + length + i - kept);
      std::copy_n(from, x.cols, before.row_data(b * kept + i));
    }
  }
}

}  // namespace longspan
#endif  // HWY_ONCE
