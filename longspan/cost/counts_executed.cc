#include <algorithm>

#include "longspan/cost/counts.h"
#include "longspan/cost/layer_names.h"

namespace longspan {
namespace {

CountValue value_of(const Work& work) {
  return {static_cast<Integer>(work.maccs), static_cast<Integer>(work.flops())};
}

void add_part(const CostTable& table, const StackNames& stack, ViewCounts& to) {
  const auto add = [&](std::string_view name, const Cost& cost, std::vector<int> why) {
    if (name == "mha" && stack.causal) why.push_back(14);
    to.layers.push_back({.name = stack.name(name),
                         .count = stack.count(name),
                         .forward = value_of(cost.forward),
                         .backward = value_of(cost.backward),
                         .update = value_of(cost.update),
                         .discrepancies = std::move(why)});
  };
  for (const LayerName& known : layer_names()) {
    const auto at = table.find(known.meter);
    if (at != table.end()) add(known.name, at->second, known.discrepancies);
  }
  // Layers that have no name in the paper keep the meter's.
  for (const auto& [meter, cost] : table) {
    const bool known = std::ranges::any_of(
        layer_names(), [&, &name = meter](const LayerName& l) { return l.meter == name; });
    if (!known) add(meter, cost, {});
  }
}

}  // namespace

ViewCounts executed_counts(const Workload& workload, const Model& model, const RuleTerms& terms) {
  ModelCost cost = model.cost_by_part(workload.shape(), /*training=*/true);
  if (!workload.output_layer) cost.head.erase("softmax layer");
  ViewCounts out{.view = CostView::kExecuted};
  add_part(cost.encoder, encoder_names(workload), out);
  add_part(cost.decoder, decoder_names(workload), out);
  add_part(cost.head, {}, out);
  const RuleFormula pepita =
      rule_formula(formula_of(workload, CostView::kExecuted), LearningRule::kPepita, terms);
  out.error_projection =
      static_cast<Integer>(workload.batch) *
      pepita.phase(CostPhase::kErrorProjection).evaluate(symbol_values(workload));
  out.rule_overhead = executed_overhead(workload, terms);
  for (const LearningRule rule : kLearningRules) {
    out.rules.push_back(compose_rule(out, rule, terms.last_layer));
  }
  return out;
}

namespace {

// Outputs of one stack whose difference between the passes is a signal to parameters.
Integer signals_of(const Workload& w, const StackNames& stack, Integer rows, Integer memory_rows) {
  const ModelConfig& c = w.model;
  const auto d = static_cast<Integer>(c.d_model);
  const auto f = static_cast<Integer>(w.d_ff());
  const auto kv = static_cast<Integer>(w.kv_width());
  const Integer attention = rows * (2 * d + 2 * kv);
  const Integer cross = stack.cross ? rows * 2 * d + memory_rows * 2 * kv : 0;
  const Integer ffn = rows * ((c.gated ? 2 : 1) * f + d);
  const Integer norms = (stack.cross ? 3 : 2) * rows * d;
  const Integer ends = rows * d * ((c.embedding_norm ? 2 : 1) + (c.wiring == "post" ? 0 : 1));
  return static_cast<Integer>(stack.blocks) * (attention + cross + ffn + norms) + ends;
}

// The embedding of the modulated pass, as rules.cc has it. A classifier's error belongs to a whole
// sequence: projected once, it is added to every token.
CountValue modulated_embedding(const Workload& w, Integer rows, bool in_model_space,
                               ErrorInjection injection) {
  if (!w.output_layer) return {};
  const auto d = static_cast<Integer>(w.model.d_model);
  if (in_model_space) return {0, rows * d};
  if (w.model.head == "classifier") {
    const Integer maccs = static_cast<Integer>(w.output_rows() * w.outputs()) * d;
    return {maccs, 2 * maccs + rows * d};
  }
  const Integer products = injection == ErrorInjection::kAfterEmbedding ? 1 : 2;
  const Integer maccs = products * rows * static_cast<Integer>(w.outputs()) * d;
  return {maccs, 2 * maccs};
}

// e = a_L − target, and the signal of the last layer.
Integer last_layer_flops(const Workload& w, LastLayer last_layer) {
  const auto rows = static_cast<Integer>(w.output_rows());
  switch (last_layer) {
    case LastLayer::kDifference:
      return rows + rows * static_cast<Integer>(w.outputs());
    case LastLayer::kModulatedError:
      return 2 * rows;
    case LastLayer::kStandardError:
      break;
  }
  return rows;
}

}  // namespace

CountValue executed_overhead(const Workload& w, const RuleTerms& terms) {
  const auto rows = static_cast<Integer>(w.rows());
  const auto decoder_rows = static_cast<Integer>(w.decoder_rows());
  CountValue sum;
  if (w.has_both()) {
    const bool in_model_space = terms.error_space == ErrorSpace::kModel;
    sum += modulated_embedding(w, rows, in_model_space, terms.injection);
    sum += modulated_embedding(w, decoder_rows, false, terms.injection);
    sum.flops += signals_of(w, encoder_names(w), rows, 0);
    sum.flops += signals_of(w, decoder_names(w), decoder_rows, rows);
  } else {
    sum += modulated_embedding(w, rows, false, terms.injection);
    sum.flops += signals_of(w, encoder_names(w), rows, 0);
  }
  if (w.model.head_transform) {
    sum.flops +=
        static_cast<Integer>(w.output_rows() * w.model.d_model) * (w.model.head_norm ? 2 : 1);
  }
  if (w.output_layer) sum.flops += last_layer_flops(w, terms.last_layer);
  return sum;
}

}  // namespace longspan
