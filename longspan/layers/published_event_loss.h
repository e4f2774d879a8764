// The loss of the published code of the Transformer Hawkes process (base/published_hawkes.h), with α
// and β where it starts them. A row of scores has its own event's token and time in the batch.
//
// Counted are the events that follow another.
#pragma once

#include "longspan/kernels/rows/published_events.h"
#include "longspan/layers/loss.h"

namespace longspan {

class PublishedEventLoss final : public Loss {
 public:
  static constexpr std::string_view kName = "events-published";

  std::string_view name() const override { return kName; }
  bool without_backward() const override { return false; }
  bool reads_padding() const override { return true; }
  std::size_t count(const Batch& batch) const override;
  void check(const Batch& batch, std::size_t rows, std::size_t outputs) const override;
  Goal goal(const Batch& batch, std::size_t rows, std::size_t outputs) const override;
  LossSum measure(ConstMatrix scores, const Goal& goal) const override;
  // The gradient itself, which nothing is left to be done to.
  LossSum predict(Matrix scores, const Goal& goal, float scale) const override;
  void error(Matrix /*outputs*/, const Goal& /*goal*/, float /*scale*/) const override {}
};

}  // namespace longspan
