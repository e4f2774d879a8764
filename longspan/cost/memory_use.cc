#include "longspan/cost/memory_use.h"

#include "longspan/base/config.h"
#include "longspan/cost/rule_walk.h"
#include "longspan/learning/forward_learning.h"

namespace longspan {
namespace {

constexpr std::array<ElementType, 5> kElements = {
    {{"fp32", 4}, {"fp16", 2}, {"bf16", 2}, {"fp64", 8}, {"int8", 1}}};

}  // namespace

ElementType element_type(std::string_view name) {
  std::vector<std::string_view> known;
  for (const ElementType& type : kElements) {
    if (type.name == name) return type;
    known.push_back(type.name);
  }
  throw_unknown("cost", "element type", name, known);
}

CountValue optimizer_step(OptimizerKind optimizer, const ParameterCounts& parameters) {
  CountValue step = optimizer_formula(optimizer, parameters.trained).evaluate({});
  // Weight decay touches matrices.
  if (optimizer == OptimizerKind::kAdamW) step.flops += 2 * parameters.matrices;
  return step;
}

MemoryUse memory_use(const Workload& workload, const Model& model,
                     const ParameterCounts& parameters, const ElementType& element,
                     OptimizerKind optimizer, LearningRule rule, const RuleTerms& terms) {
  const auto scaled = [&](std::size_t bytes) {
    return static_cast<Integer>(bytes) * element.bytes / static_cast<Integer>(sizeof(float));
  };
  StepMemory step;
  MemoryUse use;
  if (rule == LearningRule::kBackprop) {
    step = model.walk_training(workload.shape());
  } else if (!in_paper(rule)) {
    const RuleWalk walk(workload.model, rule);
    step = walk.rule().walk(workload.shape());
    use.feedback = static_cast<Integer>(walk.rule().own_floats()) * element.bytes;
  } else {
    const Recall recall = rule == LearningRule::kPepita ? Recall::kKeep : Recall::kCompute;
    const ForwardLearning passes(model, recall, feedback_of(terms), 1);
    step = passes.walk(workload.shape());
    use.feedback = static_cast<Integer>(passes.projection_floats()) * element.bytes;
  }
  use.parameters = parameters.total * element.bytes;
  use.drawn = parameters.drawn * element.bytes;
  use.gradients = parameters.trained * element.bytes;
  use.optimizer = use.gradients * static_cast<Integer>(Optimizer::state_blocks(optimizer));
  use.activations = scaled(step.kept);
  use.peak = scaled(step.peak);
  use.workspace = use.peak - use.activations;
  use.peak_at = step.peak_at.text();
  use.largest = scaled(step.largest);
  use.largest_at = step.largest_at.text();
  use.inference = scaled(model.inference_bytes(workload.shape()));
  if (workload.model.family == Family::kDecoder) {
    use.cache = scaled(model.cache_bytes(workload.batch, workload.length));
  }
  return use;
}

}  // namespace longspan
