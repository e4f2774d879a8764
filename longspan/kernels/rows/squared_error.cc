// Plain loops: a row has few outputs, and the compiler's vectors are enough for them.
#include "longspan/kernels/rows/squared_error.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "longspan/base/call.h"
#include "longspan/base/error.h"
#include "longspan/base/integers.h"
#include "longspan/kernels/pieces.h"

namespace longspan {

namespace {

void require_fit(ConstMatrix x, ConstMatrix values) {
  require(x.rows == values.rows && x.cols == values.cols,
          "[squared error] {}x{} outputs and {}x{} values; need equal shapes", x.rows, x.cols,
          values.rows, values.cols);
}

SquaredErrorSum row_sum(const float* x, const float* values, std::size_t n) {
  SquaredErrorSum sum;
  for (std::size_t j = 0; j < n; ++j) {
    if (std::isnan(values[j])) continue;
    const double difference = static_cast<double>(x[j]) - static_cast<double>(values[j]);
    sum.loss += difference * difference;
    ++sum.counted;
  }
  return sum;
}

void scale_row(float* x, const float* values, std::size_t n, float scale) {
  for (std::size_t j = 0; j < n; ++j) x[j] = std::isnan(values[j]) ? 0.0F : scale * x[j];
}

// Blocks of rows, at most kBlocks, so that their sums fit on the stack and are added in order.
template <class Body>
SquaredErrorSum total(ConstMatrix x, const Body& body) {
  constexpr std::size_t kBlocks = 128;
  const std::size_t grain = std::max(detail::rows_per_piece(x.cols), divide_up(x.rows, kBlocks));
  std::array<SquaredErrorSum, kBlocks> part{};
  detail::in_pieces(x.rows, grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const SquaredErrorSum row = body(r);
      part[begin / grain].loss += row.loss;
      part[begin / grain].counted += row.counted;
    }
  });
  SquaredErrorSum sum;
  for (const SquaredErrorSum& p : part) {
    sum.loss += p.loss;
    sum.counted += p.counted;
  }
  return sum;
}

}  // namespace

std::size_t count_values(std::span<const float> values) {
  return static_cast<std::size_t>(
      std::ranges::count_if(values, [](float v) { return !std::isnan(v); }));
}

SquaredErrorSum squared_error(ConstMatrix x, ConstMatrix values) {
  require_fit(x, values);
  const Called called([&] { return row_call(Op::kAdd, {}, x.rows, x.cols, Kind::kAdd, 3, 8); });
  if (called.dry()) return {};
  return total(x,
               [&](std::size_t r) { return row_sum(x.row_data(r), values.row_data(r), x.cols); });
}

SquaredErrorSum squared_error_forward(Matrix x, ConstMatrix values, float scale) {
  require_fit(x, values);
  const Called called([&] { return row_call(Op::kAdd, {}, x.rows, x.cols, Kind::kAdd, 4, 12); });
  if (called.dry()) return {};
  return total(x, [&](std::size_t r) {
    const SquaredErrorSum sum = row_sum(x.row_data(r), values.row_data(r), x.cols);
    scale_row(x.row_data(r), values.row_data(r), x.cols, scale);
    return sum;
  });
}

void squared_error_backward(Matrix x, ConstMatrix values, float scale) {
  require_fit(x, values);
  const Called called([&] { return row_call(Op::kAdd, {}, x.rows, x.cols, Kind::kAdd, 3, 12); });
  if (called.dry()) return;
  detail::in_pieces(x.rows, detail::rows_per_piece(x.cols),
                    [&](std::size_t begin, std::size_t end) {
                      for (std::size_t r = begin; r < end; ++r) {
                        float* const row = x.row_data(r);
                        const float* const value = values.row_data(r);
                        for (std::size_t j = 0; j < x.cols; ++j) {
                          row[j] = std::isnan(value[j]) ? 0.0F : 2.0F * (row[j] - scale * value[j]);
                        }
                      }
                    });
}

}  // namespace longspan
