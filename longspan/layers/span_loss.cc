#include "longspan/layers/span_loss.h"

#include "longspan/base/dry.h"
#include "longspan/base/error.h"
#include "longspan/kernels/rows/span.h"

namespace longspan {

namespace {

SpanRows span_rows(const Batch& batch, bool masked) {
  SpanRows rows{
      .batch = batch.batch, .sequences = {.length = batch.length}, .packed = batch.packed};
  if (masked || batch.packed) rows.sequences.lengths = batch.lengths;
  return rows;
}

Targets ends_of(const Goal& goal) { return {goal.batch.targets, goal.counted}; }

LossSum span_sum(const CrossEntropy& sum) { return {sum.loss, sum.counted, sum.correct}; }

}  // namespace

std::size_t SpanLoss::count(const Batch& batch) const { return count_targets(batch.targets); }

void SpanLoss::check(const Batch& batch, std::size_t /*rows*/, std::size_t outputs) const {
  require(batch.targets.size() == outputs * batch.batch,
          "[model] {} targets for {} sequences; need {} of each, where the span begins and ends",
          batch.targets.size(), batch.batch, outputs);
  const SpanRows rows = span_rows(batch, config_.masked);
  for (std::size_t i = 0; i < batch.targets.size(); ++i) {
    const std::int32_t t = batch.targets[i];
    const std::size_t places = rows.judged(i / outputs);
    require(t == kIgnoredTarget || (t >= 0 && static_cast<std::size_t>(t) < places),
            "[model] target {} is no place of a sequence of {}", t, places);
  }
}

Goal SpanLoss::goal(const Batch& batch, std::size_t /*rows*/, std::size_t outputs) const {
  if (!batch.targets.empty()) return {batch, count(batch)};
  Goal goal{batch, outputs * batch.batch};
  goal.batch.targets = Dry::memory<const std::int32_t>(outputs * batch.batch);
  return goal;
}

LossSum SpanLoss::measure(ConstMatrix scores, const Goal& goal) const {
  return span_sum(span_loss(span_rows(goal.batch, config_.masked), scores, ends_of(goal)));
}

LossSum SpanLoss::predict(Matrix scores, const Goal& goal, float scale) const {
  return span_sum(
      span_loss_forward(span_rows(goal.batch, config_.masked), scores, ends_of(goal), scale));
}

void SpanLoss::error(Matrix outputs, const Goal& goal, float scale) const {
  span_loss_backward(span_rows(goal.batch, config_.masked), outputs, ends_of(goal), scale);
}

}  // namespace longspan
