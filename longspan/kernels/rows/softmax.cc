// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/rows/softmax.cc"
#include <hwy/foreach_target.h>
// clang-format on

#include "longspan/kernels/rows/softmax.h"

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>

#include "longspan/base/call.h"
#include "longspan/base/error.h"
#include "longspan/base/integers.h"
#include "longspan/kernels/loops-inl.h"
#include "longspan/kernels/math-inl.h"
#include "longspan/kernels/pieces.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace HWY_NAMESPACE {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
// Sums run in float over this many elements and in double over the pieces, so that the error does
// not grow with the row.
constexpr size_t kPiece = 1024;

// Σ e^(x − most); with `y`, the terms are stored as well (y may be x).
template <bool store>
HWY_INLINE double exp_sum(const float* x, size_t n, float most, float* y) {
  const V shift = hn::Set(D(), most);
  double sum = 0.0;
  for (size_t first = 0; first < n; first += kPiece) {
    const float* xs = x + first;
    float* ys = store ? y + first : nullptr;
    sum += reduce_sum(HWY_MIN(kPiece, n - first), [&](auto io, size_t i, V acc) HWY_ATTR {
      const V e = exp_of(hn::Sub(io.load(xs + i, kMinusInfinity), shift));
      if constexpr (store) io.store(e, ys + i);
      return hn::Add(acc, e);
    });
  }
  return sum;
}

HWY_INLINE void scale_row(float* x, size_t n, float factor) {
  const V f = hn::Set(D(), factor);
  for_lanes(n, [&](auto io, size_t i) HWY_ATTR { io.store(hn::Mul(io.load(x + i), f), x + i); });
}

// What to subtract from a row whose maximum is no finite number. Elements of +∞, scores that
// overflowed, become the largest float; where there are none, −∞ and NaN stay what they are.
inline HWY_NOINLINE float limit_row(float* x, size_t n, float most) {
  constexpr float kMost = std::numeric_limits<float>::max();
  if (!(most > 0.0F)) return -kMost;
  for_lanes(n,
            [&](auto io, size_t i) HWY_ATTR { io.store(at_most(kMost, io.load(x + i)), x + i); });
  return kMost;
}

void softmax_rows(Matrix x) {
  for (size_t r = 0; r < x.rows; ++r) {
    float* row = x.row_data(r);
    float most = row_max(row, x.cols);
    if (!std::isfinite(most)) most = limit_row(row, x.cols, most);
    const double sum = exp_sum<true>(row, x.cols, most, row);
    scale_row(row, x.cols, sum == 0.0 ? 0.0F : static_cast<float>(1.0 / sum));
  }
}

void softmax_backward_rows(ConstMatrix p, ConstMatrix dp, Matrix ds) {
  for (size_t r = 0; r < p.rows; ++r) {
    const float* pr = p.row_data(r);
    const float* dr = dp.row_data(r);
    float* out = ds.row_data(r);
    const float dot = reduce_sum(p.cols, [&](auto io, size_t i, V acc) HWY_ATTR {
      return hn::MulAdd(io.load(pr + i), io.load(dr + i), acc);
    });
    const V sum = hn::Set(D(), dot);
    for_lanes(p.cols, [&](auto io, size_t i) HWY_ATTR {
      io.store(hn::Mul(io.load(pr + i), hn::Sub(io.load(dr + i), sum)), out + i);
    });
  }
}

// The loss of one row, −log softmax(x)[target] = log Σ e^(x − max) + max − x[target]; with `y`,
// also y = scale·softmax(x).
double cross_entropy_row(const float* x, size_t n, size_t target, float scale, float* y,
                         bool* correct) {
  const float most = row_max(x, n);
  const float logit = x[target];
  *correct = logit == most && std::find(x, x + target, most) == x + target;
  const double sum =
      y != nullptr ? exp_sum<true>(x, n, most, y) : exp_sum<false>(x, n, most, nullptr);
  if (y != nullptr) scale_row(y, n, static_cast<float>(scale / sum));
  return std::log(sum) + (static_cast<double>(most) - static_cast<double>(logit));
}

}  // namespace HWY_NAMESPACE
}  // namespace longspan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {
namespace {

HWY_EXPORT(softmax_rows);
HWY_EXPORT(softmax_backward_rows);
HWY_EXPORT(cross_entropy_row);

struct Rows {
  const float* x;
  float* y;  // null: loss only
  std::size_t cols;
  std::size_t stride;
  std::span<const std::int32_t> targets;
  float scale;
};

CrossEntropy rows_loss(const Rows& in, std::size_t begin, std::size_t end) {
  CrossEntropy sum;
  for (std::size_t r = begin; r < end; ++r) {
    float* y = in.y == nullptr ? nullptr : in.y + r * in.stride;
    const std::int32_t target = in.targets[r];
    if (target == kIgnoredTarget) {
      if (y != nullptr) std::fill_n(y, in.cols, 0.0F);
      continue;
    }
    assert(target >= 0 && static_cast<std::size_t>(target) < in.cols);
    bool correct = false;
    sum.loss += HWY_DYNAMIC_DISPATCH(cross_entropy_row)(
        in.x + r * in.stride, in.cols, static_cast<std::size_t>(target), in.scale, y, &correct);
    ++sum.counted;
    sum.correct += correct ? 1 : 0;
  }
  return sum;
}

// Blocks of rows, at most kBlocks, so that their sums fit on the stack and are added in order.
CrossEntropy total_loss(const Rows& in) {
  constexpr std::size_t kBlocks = 128;
  const std::size_t rows = in.targets.size();
  const std::size_t grain = std::max(detail::rows_per_piece(in.cols), divide_up(rows, kBlocks));
  std::array<CrossEntropy, kBlocks> part{};
  detail::in_pieces(rows, grain, [&](std::size_t begin, std::size_t end) {
    part[begin / grain] = rows_loss(in, begin, end);
  });
  CrossEntropy sum;
  for (const CrossEntropy& p : part) {
    sum.loss += p.loss;
    sum.counted += p.counted;
    sum.correct += p.correct;
  }
  return sum;
}

void require_fit(ConstMatrix x, const Targets& targets) {
  require(targets.ids.size() == x.rows, "[cross entropy] {} targets; need one per row, {}",
          targets.ids.size(), x.rows);
}

// Reads, and with 2 `passes` also writes, every score.
Call loss_call(Op op, ConstMatrix x, std::size_t passes) {
  Call call = row_call(op, {}, x.rows, x.cols, Kind::kSoftmax, 5, 4 * passes);
  call.work.bytes_of(Kind::kSoftmax) += 4 * x.rows;
  return call;
}

}  // namespace

void softmax_serial(Matrix x) { HWY_DYNAMIC_DISPATCH(softmax_rows)(x); }

void softmax_forward(Matrix x) {
  const Called called(
      [&] { return row_call(Op::kSoftmax, {}, x.rows, x.cols, Kind::kSoftmax, 5, 8); });
  if (called.dry()) return;
  detail::in_pieces(x.rows, detail::rows_per_piece(x.cols),
                    [&](std::size_t begin, std::size_t end) {
                      softmax_serial(x.slice_rows(begin, end - begin));
                    });
}

void softmax_backward_serial(ConstMatrix p, ConstMatrix dp, Matrix ds) {
  assert(p.rows == dp.rows && p.cols == dp.cols && p.rows == ds.rows && p.cols == ds.cols);
  HWY_DYNAMIC_DISPATCH(softmax_backward_rows)(p, dp, ds);
}

std::size_t count_targets(std::span<const std::int32_t> targets) {
  return targets.size() - static_cast<std::size_t>(std::ranges::count(targets, kIgnoredTarget));
}

CrossEntropy cross_entropy(ConstMatrix x, const Targets& targets) {
  require_fit(x, targets);
  const Called called([&] { return loss_call(Op::kLoss, x, 1); });
  if (called.dry()) return {};
  return total_loss({x.data, nullptr, x.cols, x.stride, targets.ids, 1.0F});
}

CrossEntropy cross_entropy_forward(Matrix x, const Targets& targets, float scale) {
  require_fit(x, targets);
  const Called called([&] { return loss_call(Op::kLossForward, x, 2); });
  if (called.dry()) return {};
  return total_loss({x.data, x.data, x.cols, x.stride, targets.ids, scale});
}

void cross_entropy_backward(Matrix x, const Targets& targets, float scale) {
  require_fit(x, targets);
  const Called called([&] {
    return Call{.op = Op::kLossBackward,
                .rows = x.rows,
                .cols = 1,
                .work = flops(Kind::kSoftmax, targets.counted, 4 * (2 * targets.counted + x.rows))};
  });
  if (called.dry()) return;
  for (std::size_t r = 0; r < x.rows; ++r) {
    if (targets.ids[r] != kIgnoredTarget) x.row_data(r)[targets.ids[r]] -= scale;
  }
}

}  // namespace longspan
#endif  // HWY_ONCE
