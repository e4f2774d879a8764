// Plain loops: a few numbers of each token, beside all that was done to get them.
#include "longspan/kernels/rows/span.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "longspan/base/call.h"
#include "longspan/base/error.h"

namespace longspan {

namespace {

void require_fit(const SpanRows& rows, ConstMatrix x, const Targets& targets) {
  std::size_t all = 0;
  for (std::size_t b = 0; b < rows.batch; ++b) all += rows.rows(b);
  require(x.rows == all && targets.ids.size() == rows.batch * x.cols,
          "[span] {} rows of scores and {} targets; need {} rows of {} sequences and one target of "
          "each for every column",
          x.rows, targets.ids.size(), all, rows.batch);
}

// Reads, and with 2 `passes` also writes, every score.
Call loss_call(Op op, const SpanRows& rows, ConstMatrix x, std::size_t passes) {
  std::uint64_t judged = 0;
  for (std::size_t b = 0; b < rows.batch; ++b) judged += rows.judged(b);
  Call call = row_call(op, {}, judged, x.cols, Kind::kSoftmax, 5, 4 * passes);
  call.work.bytes_of(Kind::kSoftmax) += 4 * rows.batch * x.cols;
  return call;
}

// The loss of one column over n rows; with `y`, also y = scale·softmax(x).
double column_loss(ConstMatrix x, std::size_t c, std::size_t target, float scale, Matrix* y,
                   bool* correct) {
  float most = -std::numeric_limits<float>::infinity();
  std::size_t best = 0;
  for (std::size_t i = 0; i < x.rows; ++i) {
    const float value = x.row_data(i)[c];
    if (value > most || std::isnan(value)) {
      most = value;
      best = i;
    }
  }
  *correct = best == target;
  const double above = static_cast<double>(most) - static_cast<double>(x.row_data(target)[c]);
  double sum = 0.0;
  for (std::size_t i = 0; i < x.rows; ++i) {
    const double e = std::exp(static_cast<double>(x.row_data(i)[c]) - static_cast<double>(most));
    sum += e;
    if (y != nullptr) y->row_data(i)[c] = static_cast<float>(e);
  }
  const auto factor = static_cast<float>(static_cast<double>(scale) / sum);
  for (std::size_t i = 0; y != nullptr && i < x.rows; ++i) y->row_data(i)[c] *= factor;
  return std::log(sum) + above;
}

// `act` receives a sequence, its first row and its column's target, which is none where ignored.
template <class Act>
void for_each_target(const SpanRows& rows, std::size_t cols, const Targets& targets,
                     const Act& act) {
  std::size_t first = 0;
  for (std::size_t b = 0; b < rows.batch; ++b) {
    for (std::size_t c = 0; c < cols; ++c) act(b, first, c, targets.ids[b * cols + c]);
    first += rows.rows(b);
  }
}

CrossEntropy total_loss(const SpanRows& rows, ConstMatrix x, const Targets& targets, float scale,
                        Matrix* y) {
  CrossEntropy sum;
  for_each_target(rows, x.cols, targets,
                  [&](std::size_t b, std::size_t first, std::size_t c, std::int32_t target) {
                    const std::size_t judged = target == kIgnoredTarget ? 0 : rows.judged(b);
                    for (std::size_t i = judged; y != nullptr && i < rows.rows(b); ++i) {
                      y->row_data(first + i)[c] = 0.0F;
                    }
                    if (judged == 0) return;
                    Matrix own = y == nullptr ? Matrix{} : y->slice_rows(first, judged);
                    bool correct = false;
                    sum.loss += column_loss(x.slice_rows(first, judged), c,
                                            static_cast<std::size_t>(target), scale,
                                            y == nullptr ? nullptr : &own, &correct);
                    ++sum.counted;
                    sum.correct += correct ? 1 : 0;
                  });
  return sum;
}

}  // namespace

CrossEntropy span_loss(const SpanRows& rows, ConstMatrix x, const Targets& targets) {
  require_fit(rows, x, targets);
  const Called called([&] { return loss_call(Op::kLoss, rows, x, 1); });
  if (called.dry()) return {};
  return total_loss(rows, x, targets, 1.0F, nullptr);
}

CrossEntropy span_loss_forward(const SpanRows& rows, Matrix x, const Targets& targets,
                               float scale) {
  require_fit(rows, x, targets);
  const Called called([&] { return loss_call(Op::kLossForward, rows, x, 2); });
  if (called.dry()) return {};
  return total_loss(rows, x, targets, scale, &x);
}

void span_loss_backward(const SpanRows& rows, Matrix x, const Targets& targets, float scale) {
  require_fit(rows, x, targets);
  const Called called([&] {
    return Call{.op = Op::kLossBackward,
                .rows = targets.ids.size(),
                .cols = 1,
                .work = flops(Kind::kSoftmax, targets.counted,
                              4 * (2 * targets.counted + targets.ids.size()))};
  });
  if (called.dry()) return;
  for_each_target(rows, x.cols, targets,
                  [&](std::size_t, std::size_t first, std::size_t c, std::int32_t target) {
                    if (target == kIgnoredTarget) return;
                    x.row_data(first + static_cast<std::size_t>(target))[c] -= scale;
                  });
}

}  // namespace longspan
