#include "longspan/layers/published_event_loss.h"

#include <algorithm>

#include "longspan/base/dry.h"
#include "longspan/base/error.h"

namespace longspan {

namespace {

PublishedRows published_rows(const Goal& goal) {
  const Batch& b = goal.batch;
  return {b.batch, b.length, b.tokens, b.times, b.lengths};
}

LossSum published_sum(const PublishedSums& sums) {
  return {sums.loss(), sums.counted, sums.correct};
}

}  // namespace

std::size_t PublishedEventLoss::count(const Batch& batch) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(batch.targets, [](std::int32_t type) { return type >= 0; }));
}

void PublishedEventLoss::check(const Batch& batch, std::size_t rows, std::size_t outputs) const {
  require(outputs % 2 == 1 && outputs > 1,
          "[model] {} outputs of events; need 2 for each type and 1 of the next time", outputs);
  require(batch.tokens.size() == rows && batch.times.size() == rows && batch.targets.size() == rows,
          "[model] {} types, {} times and {} targets of {} rows of scores; need one of each row",
          batch.tokens.size(), batch.times.size(), batch.targets.size(), rows);
  const auto types = static_cast<std::int32_t>(outputs / 2);
  for (const std::int32_t type : batch.tokens) {
    require(type >= 0 && type < types, "[model] an event of type {}; need 0 to {}", type,
            types - 1);
  }
}

Goal PublishedEventLoss::goal(const Batch& batch, std::size_t rows, std::size_t /*outputs*/) const {
  if (!batch.targets.empty()) return {batch, count(batch)};
  Goal goal{batch, rows};
  goal.batch.targets = Dry::memory<const std::int32_t>(rows);
  goal.batch.tokens = Dry::memory<const std::int32_t>(rows);
  goal.batch.times = Dry::memory<const float>(rows);
  return goal;
}

LossSum PublishedEventLoss::measure(ConstMatrix scores, const Goal& goal) const {
  return published_sum(published_events({}, scores, published_rows(goal)));
}

LossSum PublishedEventLoss::predict(Matrix scores, const Goal& goal, float scale) const {
  return published_sum(published_events_gradient({}, scores, published_rows(goal), scale));
}

}  // namespace longspan
