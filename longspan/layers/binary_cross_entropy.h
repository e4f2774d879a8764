// Cross-entropy of answers yes or no, one for every output: a target is 1, 0 or ignored, as padding
// is (kernels/rows/binary_cross_entropy.h). One output for each token tells drawn tokens from real
// ones (Clark et al., 2020, arXiv:2003.10555); several of a sequence are labels, any of which it may
// have.
//
//   o = σ(score)      L = log(1 + e^score) − target·score      ∂L/∂score = o − target
//
// 5 FLOPs per score forward, one per counted target backward.
#pragma once

#include "longspan/layers/loss.h"

namespace longspan {

class BinaryLoss final : public Loss {
 public:
  static constexpr std::string_view kName = "binary";

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
