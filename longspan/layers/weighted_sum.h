// The sum of the scores, each times a number that the batch gives: for whoever knows the gradient
// in the scores himself, as the two towers of models/two_towers.h do.
//
//   o = score      L = value·o      ∂L/∂score = value
//
// 2 FLOPs per score to measure, 3 forward and 1 backward.
#pragma once

#include "longspan/layers/loss.h"

namespace longspan {

class WeightedSum final : public Loss {
 public:
  static constexpr std::string_view kName = "weighted-sum";

  std::string_view name() const override { return kName; }
  bool without_backward() const override { return false; }
  std::size_t count(const Batch& batch) const override { return batch.values.size(); }
  void check(const Batch& batch, std::size_t rows, std::size_t outputs) const override;
  Goal goal(const Batch& batch, std::size_t rows, std::size_t outputs) const override;
  LossSum measure(ConstMatrix scores, const Goal& goal) const override;
  LossSum predict(Matrix scores, const Goal& goal, float scale) const override;
  void error(Matrix outputs, const Goal& goal, float scale) const override;
};

}  // namespace longspan
