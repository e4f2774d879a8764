// Every token receives the mean of its sequence, the simplest mixing of tokens there is.
//
//   y_i  = 1/n · Σ_j x_j        over the n real tokens of the sequence, for every i
//   dx_j = 1/n · Σ_i dy_i       at real tokens, 0 at padding
//
// There is nothing to learn and nothing to keep. It looks ahead, so it can be neither causal nor
// decode. Counts, with R real rows of M in B sequences: forward (R + B + M)·d of add, backward
// (M + B)·d.
#pragma once

#include "longspan/layers/branch.h"

namespace longspan {

class MeanMixer final : public Branch {
 public:
  explicit MeanMixer(bool causal);

  std::string_view meter_name() const override { return "mean"; }
  void check(const Pass& /*pass*/) const override {}
  Kept save(const Pass& /*pass*/, Arena& /*arena*/) const override { return {}; }
  void forward(const BranchForward& call) const override;
  Kept backward(const BranchBackward& call) const override;
  void accumulate(const BranchUpdate& /*call*/) const override {}
  bool trained() const override { return false; }
  bool decodes() const override { return false; }
};

}  // namespace longspan
