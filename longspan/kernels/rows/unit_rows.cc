// Plain loops: there are as many rows as sequences.
#include "longspan/kernels/rows/unit_rows.h"

#include <cmath>

#include "longspan/base/call.h"
#include "longspan/base/error.h"

namespace longspan {

namespace {

void require_same(ConstMatrix a, ConstMatrix b) {
  require(a.rows == b.rows && a.cols == b.cols, "[unit rows] {}x{} and {}x{}; need equal shapes",
          a.rows, a.cols, b.rows, b.cols);
}

void require_each(std::span<const float> inverse, ConstMatrix x) {
  require(inverse.size() == x.rows, "[unit rows] {} lengths of {} rows; need one each",
          inverse.size(), x.rows);
}

double product(const float* x, const float* y, std::size_t n) {
  double sum = 0.0;
  for (std::size_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  return sum;
}

}  // namespace

void unit_rows(ConstMatrix x, Matrix y, std::span<float> inverse) {
  require_same(x, y);
  require_each(inverse, x);
  const Called called([&] {
    Call call = row_call(Op::kNorm, {}, x.rows, x.cols, Kind::kNorm, 3, 8);
    call.work += flops(Kind::kNorm, 2 * x.rows, 4 * x.rows);
    return call;
  });
  if (called.dry()) return;
  for (std::size_t r = 0; r < x.rows; ++r) {
    const float* const row = x.row_data(r);
    const double length = std::sqrt(product(row, row, x.cols));
    inverse[r] = length > 0.0 ? static_cast<float>(1.0 / length) : 0.0F;
    for (std::size_t i = 0; i < x.cols; ++i) y.row_data(r)[i] = row[i] * inverse[r];
  }
}

void unit_rows_backward(ConstMatrix y, std::span<const float> inverse, ConstMatrix dy, Matrix dx) {
  require_same(y, dy);
  require_same(y, dx);
  require_each(inverse, y);
  const Called called(
      [&] { return row_call(Op::kNormBackward, {}, y.rows, y.cols, Kind::kNorm, 5, 12); });
  if (called.dry()) return;
  for (std::size_t r = 0; r < y.rows; ++r) {
    const float* const row = y.row_data(r);
    const float* const signal = dy.row_data(r);
    const auto along = static_cast<float>(product(row, signal, y.cols));
    for (std::size_t i = 0; i < y.cols; ++i) {
      dx.row_data(r)[i] = (signal[i] - row[i] * along) * inverse[r];
    }
  }
}

double sum_of_products(ConstMatrix x, ConstMatrix y) {
  require_same(x, y);
  const Called called([&] { return row_call(Op::kAdd, {}, x.rows, x.cols, Kind::kAdd, 2, 8); });
  if (called.dry()) return 0.0;
  double sum = 0.0;
  for (std::size_t r = 0; r < x.rows; ++r) sum += product(x.row_data(r), y.row_data(r), x.cols);
  return sum;
}

}  // namespace longspan
