#include "longspan/layers/cross_entropy.h"

#include "longspan/base/dry.h"
#include "longspan/base/error.h"
#include "longspan/kernels/rows/softmax.h"

namespace longspan {

namespace {

Targets targets_of(const Goal& goal) { return {goal.batch.targets, goal.counted}; }

LossSum sum_of(const CrossEntropy& sum) { return {sum.loss, sum.counted, sum.correct}; }

}  // namespace

std::size_t CrossEntropyLoss::count(const Batch& batch) const {
  return count_targets(batch.targets);
}

void CrossEntropyLoss::check(const Batch& batch, std::size_t rows, std::size_t outputs) const {
  require(batch.targets.size() == rows,
          "[model] {} targets for {} rows of scores; need one of each row", batch.targets.size(),
          rows);
  for (const std::int32_t t : batch.targets) {
    require(t == kIgnoredTarget || (t >= 0 && static_cast<std::size_t>(t) < outputs),
            "[model] target {} is outside 0 to {}", t, outputs - 1);
  }
}

Goal CrossEntropyLoss::goal(const Batch& batch, std::size_t rows, std::size_t /*outputs*/) const {
  if (!batch.targets.empty()) return {batch, count(batch)};
  Goal goal{batch, rows};
  goal.batch.targets = Dry::memory<const std::int32_t>(rows);
  return goal;
}

LossSum CrossEntropyLoss::measure(ConstMatrix scores, const Goal& goal) const {
  return sum_of(cross_entropy(scores, targets_of(goal)));
}

LossSum CrossEntropyLoss::predict(Matrix scores, const Goal& goal, float scale) const {
  return sum_of(cross_entropy_forward(scores, targets_of(goal), scale));
}

void CrossEntropyLoss::error(Matrix outputs, const Goal& goal, float scale) const {
  cross_entropy_backward(outputs, targets_of(goal), scale);
}

}  // namespace longspan
