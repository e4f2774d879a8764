// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/rows/vector.cc"
#include <hwy/foreach_target.h>
// clang-format on

#include "longspan/kernels/rows/vector.h"

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstring>
#include <limits>

#include "longspan/base/call.h"
#include "longspan/base/error.h"
#include "longspan/base/integers.h"
#include "longspan/kernels/loops-inl.h"
#include "longspan/kernels/pieces.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace HWY_NAMESPACE {

void add_run(const float* a, const float* b, float* y, size_t n) {
  for_lanes(n, [&](auto io, size_t i)
                   HWY_ATTR { io.store(hn::Add(io.load(a + i), io.load(b + i)), y + i); });
}

void subtract_run(const float* a, const float* b, float* y, size_t n) {
  for_lanes(n, [&](auto io, size_t i)
                   HWY_ATTR { io.store(hn::Sub(io.load(a + i), io.load(b + i)), y + i); });
}

void difference_run(float alpha, const float* a, const float* b, float* y, size_t n) {
  const V factor = hn::Set(D(), alpha);
  for_lanes(n, [&](auto io, size_t i) HWY_ATTR {
    io.store(hn::Mul(factor, hn::Sub(io.load(a + i), io.load(b + i))), y + i);
  });
}

void axpy_run(float alpha, const float* x, float* y, size_t n) {
  const V factor = hn::Set(D(), alpha);
  for_lanes(n, [&](auto io, size_t i) HWY_ATTR {
    io.store(hn::MulAdd(factor, io.load(x + i), io.load(y + i)), y + i);
  });
}

void scale_run(float alpha, float* y, size_t n) {
  const V factor = hn::Set(D(), alpha);
  for_lanes(n,
            [&](auto io, size_t i) HWY_ATTR { io.store(hn::Mul(factor, io.load(y + i)), y + i); });
}

// sum[j] += Σ_i x[i, j]
void sum_columns(ConstMatrix x, float* sum) {
  add_down(x.rows, x.cols, sum,
           [&](auto io, size_t i, size_t j) HWY_ATTR { return io.load(x.row_data(i) + j); });
}

double squares_run(const float* x, size_t n) {
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, decltype(dd)> df;
  const size_t lanes = hn::Lanes(dd);
  auto a = hn::Zero(dd);
  auto b = hn::Zero(dd);
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto u = hn::PromoteTo(dd, hn::LoadU(df, x + i));
    const auto v = hn::PromoteTo(dd, hn::LoadU(df, x + i + lanes));
    a = hn::MulAdd(u, u, a);
    b = hn::MulAdd(v, v, b);
  }
  double rest = 0.0;
  for (; i < n; ++i) rest += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return hn::GetLane(hn::SumOfLanes(dd, hn::Add(a, b))) + rest;
}

bool finite_run(const float* x, size_t n) {
  const V bound = hn::Set(D(), std::numeric_limits<float>::infinity());
  auto good = hn::Lt(hn::Zero(D()), bound);
  for_lanes(n, [&](auto io, size_t i) HWY_ATTR {  // false for ±∞ and, as every comparison, for NaN
    good = hn::And(good, hn::Lt(hn::Abs(io.load(x + i)), bound));
  });
  return hn::AllTrue(D(), good);
}

}  // namespace HWY_NAMESPACE
}  // namespace longspan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {
namespace {

HWY_EXPORT(add_run);
HWY_EXPORT(subtract_run);
HWY_EXPORT(difference_run);
HWY_EXPORT(axpy_run);
HWY_EXPORT(scale_run);
HWY_EXPORT(sum_columns);
HWY_EXPORT(squares_run);
HWY_EXPORT(finite_run);

void require_same(const char* who, ConstMatrix a, ConstMatrix b) {
  require(a.rows == b.rows && a.cols == b.cols, "[{}] {}x{} and {}x{}; need equal shapes", who,
          a.rows, a.cols, b.rows, b.cols);
}

}  // namespace

void fill(Matrix y, float value) {
  const Called called([&] { return move_call(y.rows, y.cols); });
  if (called.dry()) return;
  detail::in_runs(y.rows, y.cols, y.contiguous(), [&](std::size_t r, std::size_t c, std::size_t n) {
    std::fill_n(y.row_data(r) + c, n, value);
  });
}

void copy(ConstMatrix x, Matrix y) {
  require_same("copy", x, y);
  const Called called([&] { return move_call(y.rows, y.cols); });
  if (called.dry()) return;
  if (x.data == y.data && x.stride == y.stride) return;
  detail::in_runs(y.rows, y.cols, x.contiguous() && y.contiguous(),
                  [&](std::size_t r, std::size_t c, std::size_t n) {
                    std::memcpy(y.row_data(r) + c, x.row_data(r) + c, n * sizeof(float));
                  });
}

void add(ConstMatrix a, ConstMatrix b, Matrix y) {
  require_same("add", a, b);
  require_same("add", a, y);
  const Called called([&] { return row_call(Op::kAdd, {}, y.rows, y.cols, Kind::kAdd, 1, 12); });
  if (called.dry()) return;
  detail::in_runs(y.rows, y.cols, a.contiguous() && b.contiguous() && y.contiguous(),
                  [&](std::size_t r, std::size_t c, std::size_t n) {
                    HWY_DYNAMIC_DISPATCH(add_run)
                    (a.row_data(r) + c, b.row_data(r) + c, y.row_data(r) + c, n);
                  });
}

void subtract(ConstMatrix a, ConstMatrix b, Matrix y) {
  require_same("subtract", a, b);
  require_same("subtract", a, y);
  const Called called([&] { return row_call(Op::kAdd, {}, y.rows, y.cols, Kind::kAdd, 1, 12); });
  if (called.dry()) return;
  detail::in_runs(y.rows, y.cols, a.contiguous() && b.contiguous() && y.contiguous(),
                  [&](std::size_t r, std::size_t c, std::size_t n) {
                    HWY_DYNAMIC_DISPATCH(subtract_run)
                    (a.row_data(r) + c, b.row_data(r) + c, y.row_data(r) + c, n);
                  });
}

void difference(float alpha, ConstMatrix a, ConstMatrix b, Matrix y) {
  require_same("difference", a, b);
  require_same("difference", a, y);
  const Called called([&] { return row_call(Op::kAdd, {}, y.rows, y.cols, Kind::kAdd, 1, 12); });
  if (called.dry()) return;
  detail::in_runs(y.rows, y.cols, a.contiguous() && b.contiguous() && y.contiguous(),
                  [&](std::size_t r, std::size_t c, std::size_t n) {
                    HWY_DYNAMIC_DISPATCH(difference_run)
                    (alpha, a.row_data(r) + c, b.row_data(r) + c, y.row_data(r) + c, n);
                  });
}

void axpy(float alpha, ConstMatrix x, Matrix y) {
  require_same("axpy", x, y);
  const Called called([&] {
    return row_call(Op::kAdd, {}, y.rows, y.cols, Kind::kAdd, alpha == 1.0F ? 1 : 2, 12);
  });
  if (called.dry()) return;
  detail::in_runs(y.rows, y.cols, x.contiguous() && y.contiguous(),
                  [&](std::size_t r, std::size_t c, std::size_t n) {
                    HWY_DYNAMIC_DISPATCH(axpy_run)
                    (alpha, x.row_data(r) + c, y.row_data(r) + c, n);
                  });
}

void scale(float alpha, Matrix y) {
  const Called called([&] { return row_call(Op::kAdd, {}, y.rows, y.cols, Kind::kAdd, 1, 8); });
  if (called.dry()) return;
  detail::in_runs(y.rows, y.cols, y.contiguous(), [&](std::size_t r, std::size_t c, std::size_t n) {
    HWY_DYNAMIC_DISPATCH(scale_run)(alpha, y.row_data(r) + c, n);
  });
}

void add_column_sums(ConstMatrix x, float* sum) {
  const Called called([&] {
    Call call = row_call(Op::kColumnSums, {}, x.rows, x.cols, Kind::kAdd, 1, 4);
    call.work.bytes_of(Kind::kAdd) += 8 * x.cols;
    return call;
  });
  if (called.dry()) return;
  detail::in_row_sums(
      x.rows, x.cols, x.cols,
      [&](std::size_t begin, std::size_t end, float* partial) {
        HWY_DYNAMIC_DISPATCH(sum_columns)(x.slice_rows(begin, end - begin), partial);
      },
      [&](const float* partial) {
        add_row({partial, x.cols}, sum);
      });
}

double sum_of_squares(std::span<const float> x) {
  const Called called(
      [&] { return row_call(Op::kSquares, {}, 1, x.size(), Kind::kOptimizer, 2, 4); });
  if (called.dry()) return 0.0;
  constexpr std::size_t kPieces = 256;  // at most, so that their sums fit on the stack
  const std::size_t grain = std::max(detail::kPieceElements, divide_up(x.size(), kPieces));
  std::array<double, kPieces> part{};
  detail::in_pieces(x.size(), grain, [&](std::size_t begin, std::size_t end) {
    part[begin / grain] = HWY_DYNAMIC_DISPATCH(squares_run)(x.data() + begin, end - begin);
  });
  double sum = 0.0;
  for (const double p : part) sum += p;
  return sum;
}

bool all_finite(std::span<const float> x) {
  std::atomic<bool> good = true;
  detail::in_pieces(x.size(), detail::kPieceElements, [&](std::size_t begin, std::size_t end) {
    if (!good.load(std::memory_order_relaxed)) return;
    if (!HWY_DYNAMIC_DISPATCH(finite_run)(x.data() + begin, end - begin)) good = false;
  });
  return good;
}

}  // namespace longspan
#endif  // HWY_ONCE
