#include <algorithm>
#include <utility>
#include <vector>

#include "longspan/base/meter.h"
#include "longspan/cost/counts.h"
#include "longspan/cost/layer_names.h"
#include "longspan/cost/rule_walk.h"
#include "longspan/learning/forward_learning.h"

namespace longspan {
namespace {

CountValue value_of(const Work& work) {
  return {static_cast<Integer>(work.maccs), static_cast<Integer>(work.flops())};
}

void add_part(const CostTable& table, const StackNames& stack, ViewCounts& to) {
  std::vector<std::pair<LayerName, const Cost*>> layers;
  for (const auto& [meter, cost] : table) layers.emplace_back(layer_name(meter), &cost);
  std::ranges::stable_sort(layers, {}, [](const auto& layer) { return layer.first.kind; });
  for (auto& [layer, cost] : layers) {
    if (layer.kind == ReportKind::kAttention && stack.causal) layer.discrepancies.push_back(14);
    to.layers.push_back({.name = stack.name(layer),
                         .count = stack.count(layer),
                         .forward = value_of(cost->forward),
                         .backward = value_of(cost->backward),
                         .update = value_of(cost->update),
                         .discrepancies = layer.discrepancies});
  }
}

}  // namespace

ViewCounts executed_counts(const Workload& workload, const Model& model, const RuleTerms& terms) {
  ModelCost cost = model.cost_by_part(workload.shape(), /*training=*/true);
  if (!workload.output_layer) cost.head.erase(std::string(Head::kMeter));
  ViewCounts out{.view = CostView::kExecuted};
  add_part(cost.encoder, encoder_names(workload), out);
  add_part(cost.decoder, decoder_names(workload), out);
  add_part(cost.head, {}, out);
  Meter meter;
  if (workload.comparable()) {
    const Meter::Use use(meter);
    ForwardLearning(model, Recall::kKeep, feedback_of(terms), 1).walk(workload.shape());
  }
  out.error_projection = value_of(meter.at(kProjectionMeter, Phase::kForward));
  Work overhead;
  for (const auto& [key, work] : meter.entries()) {
    // Without an output layer there is no error to send back, and differences alone are left.
    const bool counts = workload.output_layer || key.part != ModelPart::kError;
    if (key.layer == kOverheadMeter && counts) overhead += work;
  }
  out.rule_overhead = value_of(overhead);
  for (const LearningRule rule : kPaperRules) {
    out.rules.push_back(compose_rule(out, rule, terms.last_layer));
  }
  return out;
}

RuleCounts walked_counts(const Workload& workload, LearningRule rule) {
  CostTable table = RuleWalk(workload.model, rule).rule().cost(workload.shape());
  RuleCounts out{.rule = rule};
  // All of it is the error's, which there is none of without an output layer.
  if (const auto at = table.find(kOverheadMeter); at != table.end()) {
    if (workload.output_layer) out.phase(CostPhase::kRuleOverhead) = value_of(at->second.update);
    table.erase(at);
  }
  if (!workload.output_layer) table.erase(std::string(Head::kMeter));
  for (const auto& [layer, cost] : table) {
    out.phase(CostPhase::kForward) += value_of(cost.forward);
    out.phase(CostPhase::kBackward) += value_of(cost.backward);
    out.phase(CostPhase::kUpdate) += value_of(cost.update);
  }
  return out;
}

}  // namespace longspan
