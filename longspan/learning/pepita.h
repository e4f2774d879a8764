// PEPITA and MEMPEPITA: learning from a standard pass and one whose input carries the output error.
// The passes and their equations are in models/forward_learning.h.
#pragma once

#include "longspan/learning/rule.h"
#include "longspan/models/forward_learning.h"

namespace longspan {

template <Recall recall>
class ForwardRule final : public Rule {
 public:
  ForwardRule(Model& model, const Feedback& feedback, RandomKey seed)
      : model_(model), feedback_(feedback), passes_(model, recall, feedback, seed) {}

  void prepare(const Batch& shape) override { passes_.prepare(shape); }
  StepMemory memory(const Batch& shape) const override {
    return ForwardLearning::memory(model_, recall, feedback_, shape);
  }
  CostTable cost(const Batch& batch) const override {
    return ForwardLearning::cost(model_, recall, feedback_, batch);
  }
  CrossEntropy accumulate(const Batch& batch, RandomKey key, float scale) override {
    return passes_.accumulate(batch, key, scale);
  }
  // F, to give it what somebody else drew.
  Matrix projection() { return passes_.projection(); }

 private:
  Model& model_;
  Feedback feedback_;
  ForwardLearning passes_;
};

using Pepita = ForwardRule<Recall::kKeep>;
using Mempepita = ForwardRule<Recall::kCompute>;

}  // namespace longspan
