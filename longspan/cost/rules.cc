#include "longspan/cost/rules.h"

#include <algorithm>

namespace longspan {
namespace {

using symbols::d, symbols::f, symbols::v;

constexpr CostPhase kOverhead = CostPhase::kRuleOverhead;

bool has_projection(const ModelFormula& model) {
  return model.terms.family == ModelFamily::kEncoderDecoder;
}

LayerFormula projection_of(const ModelFormula& model, ErrorSpace space) {
  const ModelTerms& terms = model.terms;
  return terms.view == CostView::kExecuted
             ? executed_error_projection(terms.length, terms.target_length, space)
             : paper_error_projection(terms.view, terms.length, terms.target_length, space);
}

// All forward passes.
CountFormula forward_of(const ModelFormula& model, int passes, LastLayer last_layer) {
  CountFormula sum;
  for (const ModelLayer& layer : model.layers) {
    const bool last = layer.formula.kind == LayerKind::kSoftmax;
    sum += Polynomial(last ? last_layer_passes(passes, last_layer) : passes) *
           layer.total(CostPhase::kForward);
  }
  return sum;
}

CountFormula update_of(const ModelFormula& model, bool is_backprop) {
  CountFormula sum;
  for (const ModelLayer& layer : model.layers) {
    if (!is_backprop || layer.formula.updated_by_backprop) sum += layer.total(CostPhase::kUpdate);
  }
  return sum;
}

// The embedding of the modulated pass. An error in the vocabulary's space is M×v and dense.
void add_embedding(const ModelLayer& layer, bool is_projected, const RuleTerms& terms,
                   bool has_both, std::vector<FormulaLine>& lines) {
  const Polynomial& M = layer.formula.queries;
  const ErrorInjection injection = terms.injection;
  const bool in_model_space = has_both && terms.error_space == ErrorSpace::kModel;
  if (in_model_space) {
    lines.push_back({layer.name + ": add the projected error", "x + e", kOverhead, {0, M * d}});
  }
  if (in_model_space && is_projected) {
    lines.push_back({layer.name + ": difference", "a − a_err", kOverhead, {0, M * d}});
    return;
  }
  if (injection == ErrorInjection::kAfterEmbedding) {
    lines.push_back({layer.name + ": project the error", "x + e·F", kOverhead, matmuls(M * v * d)});
  } else {
    lines.push_back({layer.name + ": modulated pass", "x·W + e·W", kOverhead, matmuls(M * v * d)});
    lines.push_back(
        {layer.name + ": dense update", "eᵀ·(a − a_err)", kOverhead, matmuls(M * v * d)});
  }
  lines.push_back({layer.name + ": difference", "a − a_err", kOverhead, {0, M * d}});
}

// The outputs whose difference is the signal to a layer's parameters.
Polynomial signals(const LayerFormula& layer) {
  const Polynomial& M = layer.queries;
  const Polynomial& N = layer.keys;
  switch (layer.kind) {
    case LayerKind::kAttention:
      return 2 * M * d + 2 * N * d;  // Q and output; K and V
    case LayerKind::kFeedForward:
      return M * f + M * d;
    case LayerKind::kAddNorm:
      return M * d;
    case LayerKind::kEmbedding:
    case LayerKind::kSoftmax:
    case LayerKind::kErrorProjection:
      break;
  }
  return 0;
}

void add_last_layer(const ModelLayer& layer, LastLayer last_layer,
                    std::vector<FormulaLine>& lines) {
  const Polynomial& M = layer.formula.queries;
  lines.push_back({layer.name + ": output error", "e = a_L − target", kOverhead, {0, M}});
  if (last_layer == LastLayer::kDifference) {
    lines.push_back({layer.name + ": signal", "a_L − a_L^err", kOverhead, {0, M * v}});
  } else if (last_layer == LastLayer::kModulatedError) {
    lines.push_back({layer.name + ": signal", "a_L^err − target", kOverhead, {0, M}});
  }
}

std::vector<FormulaLine> overhead_of(const ModelFormula& model, const RuleTerms& terms) {
  std::vector<FormulaLine> lines;
  bool first_embedding = true;  // the encoder's, where there are two
  for (const ModelLayer& layer : model.layers) {
    if (layer.formula.kind == LayerKind::kEmbedding) {
      const bool projected = first_embedding && has_projection(model);
      add_embedding(layer, projected, terms, has_projection(model), lines);
      first_embedding = false;
    } else if (layer.formula.kind == LayerKind::kSoftmax) {
      add_last_layer(layer, terms.last_layer, lines);
    } else {
      lines.push_back({layer.name + ": difference",
                       "a − a_err",
                       kOverhead,
                       {0, layer.count * signals(layer.formula)}});
    }
  }
  return lines;
}

}  // namespace

std::string_view name_of(LearningRule rule) {
  static constexpr std::array<std::string_view, kLearningRules.size()> kNames = {
      "bp", "pepita", "mempepita", "fa", "dfa"};
  return kNames[static_cast<std::size_t>(rule)];
}

int last_layer_passes(int passes, LastLayer last_layer) {
  switch (last_layer) {
    case LastLayer::kDifference:
      break;
    case LastLayer::kModulatedError:
      return std::min(passes, 2);
    case LastLayer::kStandardError:
      return 1;
  }
  return passes;
}

Feedback feedback_of(const RuleTerms& terms) {
  return {.last_layer = terms.last_layer,
          .injection = terms.injection,
          .error_space = terms.error_space};
}

RulePasses passes_of(LearningRule rule) {
  switch (rule) {
    case LearningRule::kBackprop:
    case LearningRule::kFeedback:
    case LearningRule::kDirect:
      break;
    case LearningRule::kPepita:
      return {.forward = 2, .backward = 0, .update = 1, .error_projection = 1};
    case LearningRule::kMempepita:
      return {.forward = 3, .backward = 0, .update = 1, .error_projection = 1};
  }
  return {.forward = 1, .backward = 1, .update = 1, .error_projection = 0};
}

CountFormula RuleFormula::total() const {
  CountFormula sum;
  for (const CostPhase each : kCostPhases) {
    if (each != CostPhase::kOptimizer) sum += phase(each);
  }
  return sum;
}

RuleFormula rule_formula(const ModelFormula& model, LearningRule rule, const RuleTerms& terms) {
  const RulePasses passes = passes_of(rule);
  const bool is_backprop = rule == LearningRule::kBackprop;
  RuleFormula out{.rule = rule};
  out.phase(CostPhase::kUpdate) = Polynomial(passes.update) * update_of(model, is_backprop);
  if (is_backprop) {
    out.phase(CostPhase::kForward) = model.total(CostPhase::kForward);
    out.phase(CostPhase::kBackward) = model.total(CostPhase::kBackward);
    return out;
  }
  out.discrepancies = {9, 10};
  out.phase(CostPhase::kForward) = forward_of(model, passes.forward, terms.last_layer);
  if (!has_projection(model)) {
    out.discrepancies.push_back(11);
  } else {
    out.discrepancies.push_back(5);
    out.projections.push_back(projection_of(model, terms.error_space));
    out.phase(CostPhase::kErrorProjection) =
        Polynomial(passes.error_projection) *
        out.projections.back().total(CostPhase::kErrorProjection);
  }
  if (model.terms.view == CostView::kExecuted) {
    out.overhead = overhead_of(model, terms);
    for (const FormulaLine& line : out.overhead) out.phase(kOverhead) += line.count;
  }
  return out;
}

CountFormula optimizer_formula(OptimizerKind kind, const Polynomial& parameters) {
  static constexpr std::array<int, 4> kFlops = {2, 4, 12,
                                                12};  // per parameter, without weight decay
  return {0, kFlops[static_cast<std::size_t>(kind)] * parameters};
}

}  // namespace longspan
