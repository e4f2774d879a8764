#include "longspan/cost/formula.h"

namespace longspan {

std::string_view name_of(CostView view) {
  static constexpr std::array<std::string_view, kCostViews.size()> kNames = {"printed", "corrected",
                                                                             "executed"};
  return kNames[static_cast<std::size_t>(view)];
}

std::string_view name_of(CostPhase phase) {
  static constexpr std::array<std::string_view, kCostPhases.size()> kNames = {
      "forward", "backward", "update", "error_projection", "rule_overhead", "optimizer"};
  return kNames[static_cast<std::size_t>(phase)];
}

CountValue& CountValue::operator+=(const CountValue& more) {
  maccs = add_exactly(maccs, more.maccs);
  flops = add_exactly(flops, more.flops);
  return *this;
}

CountValue operator*(Integer times, const CountValue& count) {
  return {multiply_exactly(times, count.maccs), multiply_exactly(times, count.flops)};
}

CountFormula& CountFormula::operator+=(const CountFormula& more) {
  maccs += more.maccs;
  flops += more.flops;
  return *this;
}

CountValue CountFormula::evaluate(const SymbolValues& values) const {
  return {maccs.evaluate(values), flops.evaluate(values)};
}

CountFormula matmuls(const Polynomial& maccs, const Polynomial& other_flops) {
  return {maccs, 2 * maccs + other_flops};
}

CountFormula LayerFormula::sum_of_lines(CostPhase phase) const {
  CountFormula sum;
  for (const FormulaLine& line : lines) {
    if (line.phase == phase) sum += line.count;
  }
  return sum;
}

void LayerFormula::sum_lines() {
  for (const CostPhase phase : kCostPhases) total(phase) = sum_of_lines(phase);
}

}  // namespace longspan
