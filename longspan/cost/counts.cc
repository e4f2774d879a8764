#include "longspan/cost/counts.h"

namespace longspan {
namespace {

constexpr CostPhase kProjection = CostPhase::kErrorProjection;
constexpr std::string_view kOutput = "softmax";

CountValue& phase_of(LayerCounts& layer, CostPhase phase) {
  if (phase == CostPhase::kForward) return layer.forward;
  return phase == CostPhase::kBackward ? layer.backward : layer.update;
}

void add_rules(ViewCounts& view, LastLayer last_layer) {
  for (const LearningRule rule : kPaperRules) {
    view.rules.push_back(compose_rule(view, rule, last_layer));
  }
}

}  // namespace

CountValue RuleCounts::total() const {
  CountValue sum;
  for (const CostPhase p : kCostPhases) {
    if (p != CostPhase::kOptimizer) sum += phase(p);
  }
  return sum;
}

CountValue ViewCounts::once(CostPhase phase, bool backprop_only) const {
  if (phase == kProjection) return error_projection;
  if (phase == CostPhase::kRuleOverhead) return rule_overhead;
  CountValue sum;
  if (phase == CostPhase::kOptimizer) return sum;
  const bool skip = backprop_only && phase == CostPhase::kUpdate;
  for (LayerCounts layer : layers) {
    if (!skip || layer.updated_by_backprop) sum += phase_of(layer, phase);
  }
  return sum;
}

RuleCounts compose_rule(const ViewCounts& view, LearningRule rule, LastLayer last_layer) {
  const RulePasses passes = passes_of(rule);
  const bool is_backprop = rule == LearningRule::kBackprop;
  RuleCounts out{.rule = rule};
  for (const LayerCounts& layer : view.layers) {
    const bool last = !is_backprop && layer.name == kOutput;
    const int runs = last ? last_layer_passes(passes.forward, last_layer) : passes.forward;
    out.phase(CostPhase::kForward) += Integer{runs} * layer.forward;
    out.phase(CostPhase::kBackward) += Integer{passes.backward} * layer.backward;
    if (!is_backprop || layer.updated_by_backprop) {
      out.phase(CostPhase::kUpdate) += Integer{passes.update} * layer.update;
    }
  }
  out.phase(kProjection) = Integer{passes.error_projection} * view.error_projection;
  if (!is_backprop) out.phase(CostPhase::kRuleOverhead) = view.rule_overhead;
  return out;
}

ViewCounts paper_counts(const Workload& workload, CostView view, const RuleTerms& terms) {
  const ModelFormula model = formula_of(workload, view);
  const SymbolValues values = symbol_values(workload);
  const auto batch = static_cast<Integer>(workload.batch);
  ViewCounts out{.view = view};
  for (const ModelLayer& layer : model.layers) {
    LayerCounts counts{.name = layer.name, .count = layer.count.evaluate(values)};
    for (const CostPhase phase : {CostPhase::kForward, CostPhase::kBackward, CostPhase::kUpdate}) {
      phase_of(counts, phase) = batch * layer.total(phase).evaluate(values);
    }
    counts.updated_by_backprop = layer.formula.updated_by_backprop;
    counts.discrepancies = layer.formula.discrepancies;
    out.layers.push_back(std::move(counts));
  }
  const RuleFormula pepita = rule_formula(model, LearningRule::kPepita, terms);
  out.error_projection = batch * pepita.phase(kProjection).evaluate(values);
  add_rules(out, terms.last_layer);
  return out;
}

}  // namespace longspan
