#include "longspan/layers/squared_error.h"

#include "longspan/base/dry.h"
#include "longspan/base/error.h"
#include "longspan/kernels/rows/squared_error.h"

namespace longspan {

namespace {

LossSum sum_of(const SquaredErrorSum& sum) { return {sum.loss, sum.counted, 0}; }

ConstMatrix values_of(const Goal& goal, ConstMatrix scores) {
  return {goal.batch.values.data(), scores.rows, scores.cols};
}

}  // namespace

std::size_t SquaredError::count(const Batch& batch) const { return count_values(batch.values); }

void SquaredError::check(const Batch& batch, std::size_t rows, std::size_t outputs) const {
  require(batch.values.size() == rows * outputs, "[model] {} values; need {} for each of {} rows",
          batch.values.size(), outputs, rows);
}

Goal SquaredError::goal(const Batch& batch, std::size_t rows, std::size_t outputs) const {
  if (!batch.values.empty()) return {batch, count(batch)};
  Goal goal{batch, rows * outputs};
  goal.batch.values = Dry::memory<const float>(rows * outputs);
  return goal;
}

LossSum SquaredError::measure(ConstMatrix scores, const Goal& goal) const {
  return sum_of(squared_error(scores, values_of(goal, scores)));
}

LossSum SquaredError::predict(Matrix scores, const Goal& goal, float scale) const {
  return sum_of(squared_error_forward(scores, values_of(goal, scores), scale));
}

void SquaredError::error(Matrix outputs, const Goal& goal, float scale) const {
  squared_error_backward(outputs, values_of(goal, outputs), scale);
}

}  // namespace longspan
