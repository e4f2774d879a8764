// Plain loops: a number of each token, beside all that was done to get it.
#include "longspan/kernels/rows/binary_cross_entropy.h"

#include <cmath>

#include "longspan/base/call.h"
#include "longspan/base/error.h"

namespace longspan {

namespace {

void require_fit(ConstMatrix x, const Targets& targets) {
  require(targets.ids.size() == x.size(), "[binary] {} targets for {} scores; need one each",
          targets.ids.size(), x.size());
}

Call loss_call(Op op, ConstMatrix x, std::size_t passes) {
  Call call = row_call(op, {}, x.rows, x.cols, Kind::kSoftmax, 5, 4 * passes);
  call.work.bytes_of(Kind::kSoftmax) += 4 * x.size();
  return call;
}

// log(1 + e^x), and σ(x) of the same exponential.
struct Logistic {
  explicit Logistic(double x) {
    const double t = std::exp(-std::fabs(x));
    soft = std::log1p(t) + (x < 0.0 ? 0.0 : x);
    sigma = (x < 0.0 ? t : 1.0) / (1.0 + t);
  }
  double soft;
  double sigma;
};

void add_score(float x, std::int32_t target, CrossEntropy& sum) {
  if (target == kIgnoredTarget) return;
  const auto score = static_cast<double>(x);
  sum.loss += Logistic(score).soft - (target == 1 ? score : 0.0);
  ++sum.counted;
  sum.correct += (x > 0.0F) == (target == 1) ? 1 : 0;
}

CrossEntropy total_loss(ConstMatrix x, const Targets& targets) {
  CrossEntropy sum;
  for (std::size_t r = 0; r < x.rows; ++r) {
    for (std::size_t c = 0; c < x.cols; ++c) {
      add_score(x.row_data(r)[c], targets.ids[r * x.cols + c], sum);
    }
  }
  return sum;
}

}  // namespace

CrossEntropy binary_cross_entropy(ConstMatrix x, const Targets& targets) {
  require_fit(x, targets);
  const Called called([&] { return loss_call(Op::kLoss, x, 1); });
  if (called.dry()) return {};
  return total_loss(x, targets);
}

CrossEntropy binary_cross_entropy_forward(Matrix x, const Targets& targets, float scale) {
  require_fit(x, targets);
  const Called called([&] { return loss_call(Op::kLossForward, x, 2); });
  if (called.dry()) return {};
  const CrossEntropy sum = total_loss(x, targets);
  for (std::size_t r = 0; r < x.rows; ++r) {
    for (std::size_t c = 0; c < x.cols; ++c) {
      float& score = x.row_data(r)[c];
      const bool counts = targets.ids[r * x.cols + c] != kIgnoredTarget;
      const double sigma = counts ? Logistic(static_cast<double>(score)).sigma : 0.0;
      score = static_cast<float>(static_cast<double>(scale) * sigma);
    }
  }
  return sum;
}

void binary_cross_entropy_backward(Matrix x, const Targets& targets, float scale) {
  require_fit(x, targets);
  const Called called([&] {
    return Call{
        .op = Op::kLossBackward,
        .rows = x.size(),
        .cols = 1,
        .work = flops(Kind::kSoftmax, targets.counted, 4 * (2 * targets.counted + x.size()))};
  });
  if (called.dry()) return;
  for (std::size_t r = 0; r < x.rows; ++r) {
    for (std::size_t c = 0; c < x.cols; ++c) {
      if (targets.ids[r * x.cols + c] == 1) x.row_data(r)[c] -= scale;
    }
  }
}

}  // namespace longspan
