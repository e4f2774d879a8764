// Backpropagation: forward, then the exact gradient by the chain rule, layer by layer.
#pragma once

#include "longspan/learning/rule.h"

namespace longspan {

class Backprop final : public Rule {
 public:
  explicit Backprop(Model& model) : model_(model) {}
  void prepare(const Batch& shape) override { model_.prepare_training(shape); }
  StepMemory walk(const Batch& shape) const override { return model_.walk_training(shape); }
  CrossEntropy accumulate(const Batch& batch, RandomKey key, float scale) override {
    const CrossEntropy loss = model_.forward(batch, key, scale);
    model_.backward(batch, scale);
    return loss;
  }

 private:
  Model& model_;
};

}  // namespace longspan
