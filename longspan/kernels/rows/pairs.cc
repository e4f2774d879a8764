#include "longspan/kernels/rows/pairs.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/rows/pairs.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include <algorithm>

#include "longspan/base/call.h"
#include "longspan/base/error.h"
#include "longspan/kernels/loops-inl.h"
#include "longspan/kernels/pieces.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace HWY_NAMESPACE {

void PairRows(ConstMatrix x, Matrix y, size_t begin, size_t end) {
  const size_t d = x.cols;
  for (size_t row = begin; row < end; ++row) {
    const float* a = x.row_data(2 * row);
    const float* b = x.row_data(2 * row + 1);
    float* both = y.row_data(row);
    std::copy_n(a, d, both);
    std::copy_n(b, d, both + d);
    for_lanes(d, [&](auto io, size_t i) HWY_ATTR {
      const V first = io.load(a + i);
      const V second = io.load(b + i);
      io.store(hn::Mul(first, second), both + 2 * d + i);
      io.store(hn::Sub(first, second), both + 3 * d + i);
    });
  }
}

void PairRowsBackward(ConstMatrix x, ConstMatrix dy, Matrix dx, size_t begin, size_t end) {
  const size_t d = x.cols;
  for (size_t row = begin; row < end; ++row) {
    const float* a = x.row_data(2 * row);
    const float* b = x.row_data(2 * row + 1);
    const float* g = dy.row_data(row);
    float* da = dx.row_data(2 * row);
    float* db = dx.row_data(2 * row + 1);
    for_lanes(d, [&](auto io, size_t i) HWY_ATTR {
      const V product = io.load(g + 2 * d + i);
      const V difference = io.load(g + 3 * d + i);
      const V to_a = hn::Add(io.load(g + i), difference);
      const V to_b = hn::Sub(io.load(g + d + i), difference);
      io.store(hn::MulAdd(product, io.load(b + i), to_a), da + i);
      io.store(hn::MulAdd(product, io.load(a + i), to_b), db + i);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace longspan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {
namespace {

HWY_EXPORT(PairRows);
HWY_EXPORT(PairRowsBackward);

void require_pairs(const char* who, ConstMatrix x, ConstMatrix y) {
  require(x.rows == 2 * y.rows && y.cols == 4 * x.cols,
          "[{}] {}×{} and {}×{}; need two rows for each of four times their width", who, x.rows,
          x.cols, y.rows, y.cols);
}

// `each` FLOPs for every element of a row of x that has a partner.
Call pair_call(ConstMatrix x, ConstMatrix y, std::uint64_t each, std::uint64_t bytes) {
  return {.op = Op::kAdd,
          .rows = y.rows,
          .cols = y.cols,
          .work = flops(Kind::kAdd, each * y.rows * x.cols, bytes)};
}

}  // namespace

void pair_rows(ConstMatrix x, Matrix y) {
  require_pairs("pair_rows", x, y);
  const Called called([&] { return pair_call(x, y, 2, 4 * (x.size() + y.size())); });
  if (called.dry()) return;
  detail::in_pieces(y.rows, detail::rows_per_piece(y.cols),
                    [&](std::size_t begin, std::size_t end) {
                      HWY_DYNAMIC_DISPATCH(PairRows)(x, y, begin, end);
                    });
}

void pair_rows_backward(ConstMatrix x, ConstMatrix dy, Matrix dx) {
  require_pairs("pair_rows_backward", x, dy);
  require(dx.rows == x.rows && dx.cols == x.cols,
          "[pair_rows_backward] {}×{} gradients of {}×{}; need equal shapes", dx.rows, dx.cols,
          x.rows, x.cols);
  const Called called([&] { return pair_call(x, dy, 6, 4 * (2 * x.size() + dy.size())); });
  if (called.dry()) return;
  detail::in_pieces(dy.rows, detail::rows_per_piece(dy.cols),
                    [&](std::size_t begin, std::size_t end) {
                      HWY_DYNAMIC_DISPATCH(PairRowsBackward)(x, dy, dx, begin, end);
                    });
}

}  // namespace longspan
#endif  // HWY_ONCE
