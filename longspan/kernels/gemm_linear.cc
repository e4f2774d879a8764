// Products with a bias and an activation, applied while a tile is in cache.

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/gemm_linear.cc"
#include <hwy/foreach_target.h>
// clang-format on

#include <hwy/highway.h>

#include "longspan/base/error.h"
#include "longspan/base/meter.h"
#include "longspan/kernels/activation-inl.h"
#include "longspan/kernels/gemm.h"
#include "longspan/kernels/gemm_run.h"
#include "longspan/kernels/loops-inl.h"

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

// A report of all that one pass over the tiles does.
void meter_linear(ConstMatrix x, ConstMatrix w, const float* bias, std::uint64_t activation = 0) {
  if (!Meter::on()) return;
  const std::uint64_t outputs = std::uint64_t{x.rows} * w.rows;
  Work work;
  work.maccs = outputs * x.cols;
  std::uint64_t& bytes = work.bytes[static_cast<std::size_t>(Kind::kMatmul)];
  bytes = 4 * (x.size() + w.size() + outputs);
  // The bias is added to a tile in cache: it is the only operand that travels.
  if (bias != nullptr) {
    work[Kind::kMatmul] = outputs;
    bytes += 4 * w.rows;
  }
  if (activation > 0) {
    work[Kind::kActivation] = activation * outputs;
    work.bytes[static_cast<std::size_t>(Kind::kActivation)] = 4 * outputs;
  }
  Meter::report(work);
}

}  // namespace

void linear_forward(ConstMatrix x, ConstMatrix w, const float* bias, Matrix y) {
  require_fit(x, w, y);
  detail::run_gemm(x, w, y, {.transpose_b = true}, [&](Matrix tile, std::size_t, std::size_t col) {
    if (bias != nullptr) HWY_DYNAMIC_DISPATCH(add_bias)(bias + col, tile);
  });
  meter_linear(x, w, bias);
}

void linear_activation_forward(ConstMatrix x, ConstMatrix w, const float* bias, Activation f,
                               Matrix z, Matrix h) {
  require_fit(x, w, h);
  const Matrix product = z.data == nullptr ? h : z;
  require_fit(x, w, product);
  detail::run_gemm(
      x, w, product, {.transpose_b = true}, [&](Matrix tile, std::size_t row, std::size_t col) {
        const Matrix out = h.slice_rows(row, tile.rows).slice_cols(col, tile.cols);
        HWY_DYNAMIC_DISPATCH(activate)(f, bias == nullptr ? nullptr : bias + col, tile, out);
      });
  meter_linear(x, w, bias, flops_of(f).forward);
}

}  // namespace longspan
#endif  // HWY_ONCE
