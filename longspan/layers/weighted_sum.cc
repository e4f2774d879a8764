#include "longspan/layers/weighted_sum.h"

#include "longspan/base/dry.h"
#include "longspan/base/error.h"
#include "longspan/kernels/rows/unit_rows.h"
#include "longspan/kernels/rows/vector.h"

namespace longspan {

namespace {

ConstMatrix weights_of(const Goal& goal, ConstMatrix scores) {
  return {goal.batch.values.data(), scores.rows, scores.cols};
}

}  // namespace

void WeightedSum::check(const Batch& batch, std::size_t rows, std::size_t outputs) const {
  require(batch.values.size() == rows * outputs, "[model] {} values; need {} for each of {} rows",
          batch.values.size(), outputs, rows);
}

Goal WeightedSum::goal(const Batch& batch, std::size_t rows, std::size_t outputs) const {
  if (!batch.values.empty()) return {batch, count(batch)};
  Goal goal{batch, rows * outputs};
  goal.batch.values = Dry::memory<const float>(rows * outputs);
  return goal;
}

LossSum WeightedSum::measure(ConstMatrix scores, const Goal& goal) const {
  return {sum_of_products(scores, weights_of(goal, scores)), goal.counted, 0};
}

LossSum WeightedSum::predict(Matrix scores, const Goal& goal, float scale) const {
  const LossSum sum = measure(scores, goal);
  longspan::scale(scale, scores);
  return sum;
}

void WeightedSum::error(Matrix outputs, const Goal& goal, float scale) const {
  copy(weights_of(goal, outputs), outputs);
  longspan::scale(scale, outputs);
}

}  // namespace longspan
