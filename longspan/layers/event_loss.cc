#include "longspan/layers/event_loss.h"

#include <algorithm>

#include "longspan/base/dry.h"
#include "longspan/base/error.h"

namespace longspan {

namespace {

EventRows rows_of(const Goal& goal) { return {goal.batch.targets, goal.batch.values}; }

LossSum sum_of(const PointProcessSum& sum) { return {sum.loss, sum.events, sum.correct}; }

}  // namespace

template <Decay kDecay, Integration kIntegration>
std::size_t EventLoss<kDecay, kIntegration>::count(const Batch& batch) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(batch.targets, [](std::int32_t type) { return type >= 0; }));
}

template <Decay kDecay, Integration kIntegration>
void EventLoss<kDecay, kIntegration>::check(const Batch& batch, std::size_t rows,
                                            std::size_t outputs) const {
  const std::size_t parts = scores_per_type(kDecay);
  require(outputs % parts == 0, "[model] {} outputs of intensities; need {} for each type", outputs,
          parts);
  require(batch.targets.size() == rows && batch.values.size() == rows,
          "[model] {} types and {} gaps of {} rows of scores; need one of each row",
          batch.targets.size(), batch.values.size(), rows);
  const auto types = static_cast<std::int32_t>(outputs / parts);
  for (const std::int32_t type : batch.targets) {
    require(type >= kNoEvent && type < types, "[model] an event of type {}; need 0 to {}", type,
            types - 1);
  }
  for (const float gap : batch.values) {
    require(gap >= 0.0F && gap < 1e30F, "[model] a gap of {}; need a number of 0 or more", gap);
  }
}

template <Decay kDecay, Integration kIntegration>
Goal EventLoss<kDecay, kIntegration>::goal(const Batch& batch, std::size_t rows,
                                           std::size_t /*outputs*/) const {
  if (!batch.targets.empty()) return {batch, count(batch)};
  Goal goal{batch, rows};
  goal.batch.targets = Dry::memory<const std::int32_t>(rows);
  goal.batch.values = Dry::memory<const float>(rows);
  return goal;
}

template <Decay kDecay, Integration kIntegration>
LossSum EventLoss<kDecay, kIntegration>::measure(ConstMatrix scores, const Goal& goal) const {
  return sum_of(point_process({kDecay, kIntegration}, scores, rows_of(goal)));
}

template <Decay kDecay, Integration kIntegration>
LossSum EventLoss<kDecay, kIntegration>::predict(Matrix scores, const Goal& goal,
                                                 float scale) const {
  return sum_of(point_process_gradient({kDecay, kIntegration}, scores, rows_of(goal), scale));
}

template class EventLoss<Decay::kAffine, Integration::kExact>;
template class EventLoss<Decay::kAffine, Integration::kQuadrature>;
template class EventLoss<Decay::kAffine, Integration::kMonteCarlo>;
template class EventLoss<Decay::kExponential, Integration::kExact>;
template class EventLoss<Decay::kExponential, Integration::kQuadrature>;
template class EventLoss<Decay::kExponential, Integration::kMonteCarlo>;

}  // namespace longspan
