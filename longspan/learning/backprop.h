// Backpropagation: forward, then the exact gradient by the chain rule, layer by layer.
#pragma once

#include "longspan/learning/rule.h"

namespace longspan {

class Backprop final : public Rule {
 public:
  std::string_view name() const override { return "bp"; }
  CrossEntropy accumulate(Model& model, const Batch& batch, RandomKey key, float scale) override {
    const CrossEntropy loss = model.forward(batch, key, scale);
    model.backward(batch, scale);
    return loss;
  }
};

}  // namespace longspan
