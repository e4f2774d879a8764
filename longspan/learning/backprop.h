// Backpropagation: forward, then the exact gradient by the chain rule, layer by layer.
#pragma once

#include "longspan/learning/rule.h"

namespace longspan {

class Backprop final : public Rule {
 public:
  explicit Backprop(Model& model) : model_(model) {}
  void prepare(const Batch& shape) override { model_.prepare_training(shape); }
  StepMemory walk(const Batch& shape) const override { return model_.walk_training(shape); }

 private:
  LossSum run(const Batch& batch, RandomKey key, float scale,
              std::span<History> histories) override {
    const LossSum loss = model_.forward(batch, key, scale, histories);
    model_.backward(batch, scale);
    return loss;
  }

  Model& model_;
};

}  // namespace longspan
