// PEPITA and MEMPEPITA: learning from a standard pass and one whose input carries the output error.
// The passes and their equations are in forward_learning.h.
#pragma once

#include "longspan/learning/forward_learning.h"
#include "longspan/learning/rule.h"

namespace longspan {

template <Recall recall>
class ForwardRule final : public Rule {
 public:
  ForwardRule(Model& model, const Feedback& feedback, RandomKey seed)
      : model_(model), passes_(model, recall, feedback, seed) {}

  void prepare(const Batch& shape) override { passes_.prepare(model_, shape); }
  StepMemory walk(const Batch& shape) const override { return passes_.walk(shape); }
  std::size_t own_floats() const override { return passes_.projection_floats(); }
  bool packs() const override { return passes_.packs(); }
  // F, to give it what somebody else drew.
  Matrix projection() { return passes_.projection(); }

 private:
  LossSum run(const Batch& batch, RandomKey key, float scale,
              std::span<History> histories) override {
    return passes_.accumulate(model_, batch, key, scale, histories);
  }

  Model& model_;
  ForwardLearning passes_;
};

using Pepita = ForwardRule<Recall::kKeep>;
using Mempepita = ForwardRule<Recall::kCompute>;

}  // namespace longspan
