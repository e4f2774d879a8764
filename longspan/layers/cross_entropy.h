// Cross-entropy of a softmax over the scores, one target per row.
//
//   o = softmax(scores)      L = −log o[target]      ∂L/∂scores = o − 1[target]
//
// 5 FLOPs per score forward, one per counted row backward.
#pragma once

#include "longspan/layers/loss.h"

namespace longspan {

class CrossEntropyLoss final : public Loss {
 public:
  static constexpr std::string_view kName = "cross-entropy";

  std::string_view name() const override { return kName; }
  bool without_backward() const override { return true; }
  bool classifies() const override { return true; }
  std::size_t count(const Batch& batch) const override;
  void check(const Batch& batch, std::size_t rows, std::size_t outputs) const override;
  Goal goal(const Batch& batch, std::size_t rows, std::size_t outputs) const override;
  LossSum measure(ConstMatrix scores, const Goal& goal) const override;
  LossSum predict(Matrix scores, const Goal& goal, float scale) const override;
  void error(Matrix outputs, const Goal& goal, float scale) const override;
};

}  // namespace longspan
