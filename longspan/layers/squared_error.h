// Squared error of numbers: as many values per row as the head has outputs.
//
//   o = scores      L = Σ (o − value)²      ∂L/∂scores = 2·(o − value)
//
// A value that is NaN is missing and does not count. 3 FLOPs per score to measure, 4 forward and 3
// backward.
#pragma once

#include "longspan/layers/loss.h"

namespace longspan {

class SquaredError final : public Loss {
 public:
  static constexpr std::string_view kName = "squared-error";

  std::string_view name() const override { return kName; }
  bool without_backward() const override { return true; }
  std::size_t count(const Batch& batch) const override;
  void check(const Batch& batch, std::size_t rows, std::size_t outputs) const override;
  Goal goal(const Batch& batch, std::size_t rows, std::size_t outputs) const override;
  LossSum measure(ConstMatrix scores, const Goal& goal) const override;
  LossSum predict(Matrix scores, const Goal& goal, float scale) const override;
  void error(Matrix outputs, const Goal& goal, float scale) const override;
};

}  // namespace longspan
