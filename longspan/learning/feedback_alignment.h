// Feedback alignment (Lillicrap et al., 2016, doi:10.1038/ncomms13276): backpropagation whose signal
// goes back through fixed random matrices.
//
//   forward    y   = x·Wᵀ + b
//   backward   dx  = dy·B          instead of dy·W;  B [out, in] is drawn once and never learns
//   update     dW += dyᵀ·x
//
// Every matrix that carries a signal from a layer's outputs to its inputs has a B: projections,
// outputs of branches, hidden layers, head and adapters, and a token table where it is the last layer
// as well. The rest of the way back stays exact: activations, norms, and a mechanism with parameters
// of its own.
//
// Costs what backpropagation does, and the memory of every B.
#pragma once

#include <vector>

#include "longspan/learning/rule.h"

namespace longspan {

class FeedbackAlignment final : public Rule {
 public:
  // B is drawn from `seed` with the deviation of the first W, or 1/√out where that began as zeros;
  // without memory for the weights the steps can be walked only.
  FeedbackAlignment(Model& model, RandomKey seed);

  void prepare(const Batch& shape) override { model_.prepare_training(shape); }
  StepMemory walk(const Batch& shape) const override { return model_.walk_training(shape); }
  std::size_t own_floats() const override { return floats_; }

  // One B, to give it what somebody else drew.
  struct Feedback {
    Parameter* parameter;
    std::span<float> values;  // empty while the model has no memory
  };
  std::span<const Feedback> feedbacks() const { return feedbacks_; }

 private:
  class Use;
  LossSum run(const Batch& batch, RandomKey key, float scale,
              std::span<History> histories) override;
  void draw(RandomKey seed);

  Model& model_;
  std::vector<Feedback> feedbacks_;
  std::size_t floats_ = 0;
  std::vector<float> drawn_;
};

}  // namespace longspan
