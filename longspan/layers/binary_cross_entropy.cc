#include "longspan/layers/binary_cross_entropy.h"

#include "longspan/base/dry.h"
#include "longspan/base/error.h"
#include "longspan/kernels/rows/binary_cross_entropy.h"

namespace longspan {

namespace {

Targets answers_of(const Goal& goal) { return {goal.batch.targets, goal.counted}; }

LossSum answered(const CrossEntropy& sum) { return {sum.loss, sum.counted, sum.correct}; }

}  // namespace

std::size_t BinaryLoss::count(const Batch& batch) const { return count_targets(batch.targets); }

void BinaryLoss::check(const Batch& batch, std::size_t rows, std::size_t outputs) const {
  require(batch.targets.size() == rows * outputs, "[model] {} targets; need {} for each of {} rows",
          batch.targets.size(), outputs, rows);
  for (const std::int32_t t : batch.targets) {
    require(t == kIgnoredTarget || t == 0 || t == 1,
            "[model] target {} of a binary loss; need 0, 1 or {}", t, kIgnoredTarget);
  }
}

Goal BinaryLoss::goal(const Batch& batch, std::size_t rows, std::size_t outputs) const {
  if (!batch.targets.empty()) return {batch, count(batch)};
  Goal goal{batch, rows * outputs};
  goal.batch.targets = Dry::memory<const std::int32_t>(rows * outputs);
  return goal;
}

LossSum BinaryLoss::measure(ConstMatrix scores, const Goal& goal) const {
  return answered(binary_cross_entropy(scores, answers_of(goal)));
}

LossSum BinaryLoss::predict(Matrix scores, const Goal& goal, float scale) const {
  return answered(binary_cross_entropy_forward(scores, answers_of(goal), scale));
}

void BinaryLoss::error(Matrix outputs, const Goal& goal, float scale) const {
  binary_cross_entropy_backward(outputs, answers_of(goal), scale);
}

}  // namespace longspan
