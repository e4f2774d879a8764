// The likelihood of events in time as a loss (kernels/rows/point_process.h). A row of scores stands
// for the history up to its event; its target is the type of the next one (kIgnoredTarget: padding;
// kNoEvent: none until the end of the window), and batch.values has the gap until then, one a row.
//
// Counted are events, so that the mean loss is the negative log-likelihood per event, with the
// compensator of the whole window in it.
#pragma once

#include "longspan/kernels/rows/point_process.h"
#include "longspan/layers/loss.h"

namespace longspan {

template <Decay kDecay, Integration kIntegration>
class EventLoss final : public Loss {
 public:
  static constexpr std::string_view kName = event_loss_name(kDecay, kIntegration);

  std::string_view name() const override { return kName; }
  bool without_backward() const override { return false; }
  std::size_t count(const Batch& batch) const override;
  void check(const Batch& batch, std::size_t rows, std::size_t outputs) const override;
  Goal goal(const Batch& batch, std::size_t rows, std::size_t outputs) const override;
  LossSum measure(ConstMatrix scores, const Goal& goal) const override;
  // The gradient itself, which nothing is left to be done to.
  LossSum predict(Matrix scores, const Goal& goal, float scale) const override;
  void error(Matrix /*outputs*/, const Goal& /*goal*/, float /*scale*/) const override {}
};

}  // namespace longspan
