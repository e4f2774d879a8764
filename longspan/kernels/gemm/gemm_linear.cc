// Products with a bias and an activation, applied while a tile is in cache.

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/gemm/gemm_linear.cc"
#include <hwy/foreach_target.h>
// clang-format on

#include <hwy/highway.h>

#include "longspan/base/call.h"
#include "longspan/base/error.h"
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/kernels/gemm/gemm_run.h"
#include "longspan/kernels/gemm/packed_weights.h"
#include "longspan/kernels/loops-inl.h"
#include "longspan/kernels/rows/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace HWY_NAMESPACE {

// y += bias, row by row.
void add_bias(const float* bias, Matrix y) {
  for (size_t i = 0; i < y.rows; ++i) {
    float* row = y.row_data(i);
    for_lanes(y.cols, [&](auto io, size_t j) HWY_ATTR {
      io.store(hn::Add(io.load(row + j), io.load(bias + j)), row + j);
    });
  }
}

// z += bias, h = f(z); z is written back unless it is h. `bias` may be null.
void activate(Activation f, const float* bias, Matrix z, Matrix h) {
  const bool keep = z.data != h.data;
  with_activation(f, [&](auto function) HWY_ATTR {
    for (size_t i = 0; i < z.rows; ++i) {
      float* from = z.row_data(i);
      float* to = h.row_data(i);
      for_lanes(z.cols, [&](auto io, size_t j) HWY_ATTR {
        V v = io.load(from + j);
        if (bias != nullptr) {
          v = hn::Add(v, io.load(bias + j));
          if (keep) io.store(v, from + j);
        }
        io.store(function.value(v), to + j);
      });
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace longspan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {
namespace {

HWY_EXPORT(add_bias);
HWY_EXPORT(activate);

void require_fit(ConstMatrix x, ConstMatrix w, ConstMatrix y) {
  require(x.cols == w.cols && y.rows == x.rows && y.cols == w.rows,
          "[linear] x is {}x{}, W is {}x{}, y is {}x{}; need n×in, out×in, n×out", x.rows, x.cols,
          w.rows, w.cols, y.rows, y.cols);
}

// All that one pass over the tiles does.
Call linear_call(ConstMatrix x, const WeightMatrix& w, const float* bias) {
  const std::size_t out = w.matrix.rows;
  Call call = product_call(w.packed ? kPackedProduct : "forward", x.rows, out, x.cols);
  // The bias is added to a tile in cache: it is the only operand that travels.
  if (bias != nullptr) {
    call.work[Kind::kMatmul] = std::uint64_t{x.rows} * out;
    call.work.bytes_of(Kind::kMatmul) += 4 * out;
  }
  return call;
}

// y = x·Wᵀ; finish(tile of y, row, col) follows each tile at once, on its thread.
template <class Finish>
void run_linear(ConstMatrix x, const WeightMatrix& w, Matrix y, Finish finish) {
  const bool empty = w.matrix.cols == 0;
  if (!w.packed || empty) return detail::run_gemm(x, w.matrix, y, {.transpose_b = true}, finish);
  if (x.rows == 0) return;
  const detail::GemmTiles tiles = detail::weight_tiles(x.rows, w.matrix.rows, x.cols);
  parallel_for(tiles.count(), [&](std::size_t index, std::size_t) {
    const auto t = tiles[index];
    const Matrix tile = y.slice_rows(t.row, t.rows).slice_cols(t.col, t.cols);
    detail::multiply_weights(x.slice_rows(t.row, t.rows), w.matrix, t.col, tile);
    finish(tile, t.row, t.col);
  });
}

}  // namespace

void linear_forward(ConstMatrix x, WeightMatrix w, const float* bias, Matrix y) {
  require_fit(x, w.matrix, y);
  const Called called([&] { return linear_call(x, w, bias); });
  if (called.dry()) return;
  run_linear(x, w, y, [&](Matrix tile, std::size_t, std::size_t col) {
    if (bias != nullptr) HWY_DYNAMIC_DISPATCH(add_bias)(bias + col, tile);
  });
}

void linear_activation_forward(ConstMatrix x, WeightMatrix w, const float* bias, Activation f,
                               Matrix z, Matrix h) {
  require_fit(x, w.matrix, h);
  const Matrix product = z.data == nullptr ? h : z;
  require_fit(x, w.matrix, product);
  const Called called([&] {
    Call call = linear_call(x, w, bias);
    call.fused = name_of(f);
    call.work += flops(Kind::kActivation, flops_of(f).forward * h.size(), 4 * h.size());
    return call;
  });
  if (called.dry()) return;
  run_linear(x, w, product, [&](Matrix tile, std::size_t row, std::size_t col) {
    const Matrix out = h.slice_rows(row, tile.rows).slice_cols(col, tile.cols);
    HWY_DYNAMIC_DISPATCH(activate)(f, bias == nullptr ? nullptr : bias + col, tile, out);
  });
}

}  // namespace longspan
#endif  // HWY_ONCE
