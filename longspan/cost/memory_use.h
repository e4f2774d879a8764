// Where the bytes of training and generating go.
#pragma once

#include <optional>
#include <string>

#include "longspan/cost/counts.h"

namespace longspan {

// How numbers are stored. This engine computes in fp32; for the others its plan is scaled.
struct ElementType {
  std::string_view name;  // "fp16"
  int bytes = 4;
};
ElementType element_type(std::string_view name);  // throws Error with the nearest name

CountValue optimizer_step(OptimizerKind optimizer, const ParameterCounts& parameters);

struct MemoryUse {
  Integer parameters = 0;
  Integer drawn = 0;  // features and rotations, which are no parameters
  Integer gradients = 0;
  Integer optimizer = 0;
  Integer feedback = 0;  // fixed random matrices that carry the error back
  // The arena of a training step: what is kept when forward (the standard pass) has ended, what
  // comes on top, and its high-water mark, which is their sum.
  Integer activations = 0;
  Integer workspace = 0;
  Integer peak = 0;
  std::string peak_at;     // "backward of block 12: mha"
  Integer largest = 0;     // the most that is taken at once
  std::string largest_at;  // "forward: softmax layer"
  Integer inference = 0;   // the arena of a pass that keeps nothing
  // Decoders: keys and values, or the mechanism's state, of `length` tokens of the whole batch.
  std::optional<Integer> cache;

  Integer total() const { return parameters + drawn + gradients + optimizer + feedback + peak; }
};
MemoryUse memory_use(const Workload& workload, const Model& model,
                     const ParameterCounts& parameters, const ElementType& element,
                     OptimizerKind optimizer, LearningRule rule = LearningRule::kBackprop,
                     const RuleTerms& terms = {});

}  // namespace longspan
