// What a model costs in numbers: layer by layer, phase by phase, and under each learning rule.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "longspan/cost/formula.h"
#include "longspan/cost/rules.h"
#include "longspan/cost/workload.h"

namespace longspan {

struct LayerCounts {
  std::string name;  // "mha"; "encoder_mha" where there are two stacks
  Integer count = 1;
  // Of all copies together.
  CountValue forward, backward, update;
  bool updated_by_backprop = true;
  std::vector<int> discrepancies;  // 1 for D1

  CountValue total() const { return forward + backward + update; }
};

struct RuleCounts {
  LearningRule rule = LearningRule::kBackprop;
  std::array<CountValue, kCostPhases.size()> phases;  // of a step: all passes together

  const CountValue& phase(CostPhase which) const { return phases[static_cast<std::size_t>(which)]; }
  CountValue& phase(CostPhase which) { return phases[static_cast<std::size_t>(which)]; }
  // Without the optimiser, as in the paper (D8).
  CountValue total() const;
};

struct ViewCounts {
  CostView view = CostView::kPrinted;
  std::vector<LayerCounts> layers;
  // Of one step of PEPITA or MEMPEPITA.
  CountValue error_projection;
  CountValue rule_overhead;
  std::vector<RuleCounts> rules;  // as kPaperRules, and what was walked beside them

  const RuleCounts& rule(LearningRule which) const {
    return *std::ranges::find(rules, which, &RuleCounts::rule);
  }
  // Each layer's phase once. The update of layers that backpropagation does not update (the paper's
  // embedding) is in it unless `backprop_only`.
  CountValue once(CostPhase phase, bool backprop_only) const;
};

// Table 2 of the paper on any view's layers:
//
//   BP         F + B + U     without layers that backpropagation does not update
//   PEPITA     2F + U + P + overhead
//   MEMPEPITA  3F + U + P + overhead
//
// so that a rule is composed in one place whether its layers come from the paper or the engine.
RuleCounts compose_rule(const ViewCounts& view, LearningRule rule, LastLayer last_layer);

// `printed` and `corrected`.
ViewCounts paper_counts(const Workload& workload, CostView view, const RuleTerms& terms = {});
// `executed`: layers and phases are Model::cost of the batch's shape; `model` is the workload's.
// So are the projection and overhead of PEPITA, which rules.h has in closed form for the paper's
// architecture: every output that has parameters behind it is compared.
ViewCounts executed_counts(const Workload& workload, const Model& model,
                           const RuleTerms& terms = {});
// A step of a rule beyond the paper. Its forward, backward and update are those of all layers; what
// it does besides is overhead.
RuleCounts walked_counts(const Workload& workload, LearningRule rule);

struct ParameterCounts {
  struct Layer {
    std::string name;
    Integer count = 1;
    Integer parameters = 0;  // of all copies together
  };
  Integer total = 0;     // frozen ones too
  Integer trained = 0;   // of the total: with a gradient
  Integer matrices = 0;  // of the trained: what weight decay touches
  Integer drawn = 0;     // beside the total: features and rotations, which nothing trains
  std::vector<Layer> layers;
};
ParameterCounts count_parameters(const Workload& workload, const Model& model);

}  // namespace longspan
