// The formulas themselves, and the lengths from which one cost is dearer than another.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cost.h"
#include "longspan/cost/crossover.h"
#include "longspan/cost/discrepancies.h"
#include "terminal.h"

namespace longspan::cli {

namespace {

void print_text(const ModelLayer& layer, CostView view) {
  fmt::print("\n");
  print_wrapped("", fmt::format("{} × {}, {}; {} parameters each", layer.name, layer.count.text(),
                                name_of(view), layer.formula.parameters.text()));
  const auto line = [](std::string_view phase, std::string_view what, const CountFormula& count) {
    print_wrapped(fmt::format("  {:<17} ", phase), what);
    print_wrapped(fmt::format("  {:<17}   MACCs ", ""), count.maccs.text());
    print_wrapped(fmt::format("  {:<17}   FLOPs ", ""), count.flops.text());
  };
  for (const FormulaLine& l : layer.formula.lines) {
    const std::string at = l.equation.empty() ? "" : "   " + l.equation;
    line(name_of(l.phase), l.operation + at, l.count);
  }
  for (const CostPhase phase : kCostPhases) {
    const CountFormula& total = layer.formula.total(phase);
    if (total.flops.is_zero() && total.maccs.is_zero()) continue;
    line(name_of(phase), view == CostView::kPrinted ? "in all, as boxed" : "in all", total);
  }
}

void print_latex(const ModelFormula& model, CostView view) {
  fmt::print("% {}\n\\begin{{tabular}}{{llll}}\nlayer & phase & MACCs & FLOPs \\\\\n\\hline\n",
             name_of(view));
  for (const ModelLayer& layer : model.layers) {
    std::string name = layer.name;
    for (std::size_t at = 0; (at = name.find('_', at)) != std::string::npos; at += 2) {
      name.replace(at, 1, "\\_");
    }
    for (const CostPhase phase : {CostPhase::kForward, CostPhase::kBackward, CostPhase::kUpdate}) {
      const CountFormula& total = layer.formula.total(phase);
      fmt::print("{} $\\times {}$ & {} & ${}$ & ${}$ \\\\\n", name, layer.count.latex(),
                 name_of(phase), total.maccs.latex(), total.flops.latex());
    }
  }
  fmt::print("\\end{{tabular}}\n");
}

// A formula as it would be printed.
std::string written(const Polynomial& p, bool latex) { return latex ? p.latex() : p.text(); }

nlohmann::json as_json(const CountFormula& count, bool latex) {
  return {{"maccs", written(count.maccs, latex)}, {"flops", written(count.flops, latex)}};
}

nlohmann::json as_json(const ModelLayer& layer, bool latex) {
  nlohmann::json json = {{"name", layer.name},
                         {"count", written(layer.count, latex)},
                         {"parameters", written(layer.formula.parameters, latex)},
                         {"operations", nlohmann::json::array()}};
  for (const FormulaLine& l : layer.formula.lines) {
    nlohmann::json line = as_json(l.count, latex);
    line["phase"] = name_of(l.phase);
    line["operation"] = l.operation;
    line["equation"] = l.equation;
    json["operations"].push_back(std::move(line));
  }
  for (const CostPhase phase : kCostPhases) {
    const CountFormula& total = layer.formula.total(phase);
    if (total.flops.is_zero() && total.maccs.is_zero()) continue;
    json["phases"][std::string(name_of(phase))] = as_json(total, latex);
  }
  return json;
}

void print_formulas_json(const CostReport& report, bool latex) {
  nlohmann::json formulas;
  for (const CostView view : report.shown_views) {
    const ModelFormula model = formula_of(report.workload, view);
    nlohmann::json& to = formulas[std::string(name_of(view))];
    for (const ModelLayer& layer : model.layers) to["layers"].push_back(as_json(layer, latex));
    for (const LearningRule rule : report.shown_rules) {
      to["rules"][std::string(name_of(rule))] = as_json(rule_formula(model, rule).total(), latex);
    }
  }
  const nlohmann::json json = {{"notation", latex ? "latex" : "text"},
                               {"formulas", formulas},
                               {"left_out", beyond_the_paper(report.workload)}};
  fmt::print("{}\n", json.dump(2));
}

struct Question {
  std::string text;
  Polynomial dearer, cheaper;
  Symbol symbol = symbols::N;
};

// One stack over N tokens, whatever the model is: the paper's questions are asked of that.
std::vector<Question> questions(const Workload& w) {
  using symbols::d, symbols::f, symbols::n;
  std::vector<Question> list = {
      {"products of attention (2·n²·d) above its projections (4·n·d²)", 2 * n * n * d,
       4 * n * d * d, n},
      {"products of attention above the FFN (2·n·d·f)", 2 * n * n * d, 2 * n * d * f, n},
      {"products of attention above all products with weights of a block", 2 * n * n * d,
       4 * n * d * d + 2 * n * d * f, n}};
  Workload one = w;
  one.model.family = w.model.family == Family::kDecoder ? Family::kDecoder : Family::kEncoder;
  one.model.head = HeadKind::kLanguage;
  one.output_layer = true;
  for (const CostView view : kCostViews) {
    const ModelFormula model = formula_of(one, view);
    const Polynomial bp = rule_formula(model, LearningRule::kBackprop).total().maccs;
    const auto ask = [&](const std::string& what, const RuleTerms& terms) {
      const Polynomial pepita = rule_formula(model, LearningRule::kPepita, terms).total().maccs;
      list.push_back(
          {fmt::format("PEPITA cheaper than BP, {}{}", name_of(view), what), bp, pepita});
    };
    ask("", {});
    if (view != CostView::kExecuted) continue;
    ask(", last layer by the standard error (D10)", {.last_layer = LastLayer::kStandardError});
    ask(", error added after the embedding",
        {.last_layer = LastLayer::kStandardError, .injection = ErrorInjection::kAfterEmbedding});
  }
  return list;
}

}  // namespace

void print_formulas(const CostReport& report, bool latex, bool json) {
  if (json) return print_formulas_json(report, latex);
  const std::vector<std::string> beyond = beyond_the_paper(report.workload);
  if (!beyond.empty()) {
    fmt::print(stderr, "note: the formulas leave out what the paper does not have: {}\n",
               fmt::join(beyond, ", "));
  }
  for (const CostView view : report.shown_views) {
    const ModelFormula model = formula_of(report.workload, view);
    if (latex) {
      print_latex(model, view);
      continue;
    }
    for (const ModelLayer& layer : model.layers) print_text(layer, view);
    for (const LearningRule rule : report.shown_rules) {
      const RuleFormula formula = rule_formula(model, rule);
      fmt::print("\n{} in all, {}\n", name_of(rule), name_of(view));
      print_wrapped("  MACCs ", formula.total().maccs.text());
      print_wrapped("  FLOPs ", formula.total().flops.text());
    }
  }
}

void print_crossovers(const CostReport& report, bool json) {
  SymbolValues values = symbol_values(report.workload);
  std::erase_if(values, [](const auto& entry) {
    return entry.first == symbols::N || entry.first == symbols::M ||
           entry.second == 0;  // no classes, no decoder
  });
  nlohmann::json list = nlohmann::json::array();
  for (const Question& q : questions(report.workload)) {
    const Crossover found = crossover(q.dearer, q.cheaper, q.symbol, values);
    const std::string from = found.from ? to_decimal(*found.from) : "never";
    if (json) {
      nlohmann::json entry = {{"question", q.text},
                              {"condition", found.condition.text},
                              {"latex", found.condition.latex},
                              {"from", nullptr}};
      if (found.from) entry["from"] = static_cast<std::int64_t>(*found.from);
      list.push_back(std::move(entry));
      continue;
    }
    print_wrapped("", q.text);
    print_wrapped("  ", found.condition.text);
    print_wrapped("  here: ",
                  found.from ? fmt::format("from {} = {}", q.symbol.name(), from) : from);
  }
  if (json) fmt::print("{}\n", nlohmann::json{{"crossovers", list}}.dump(2));
}

}  // namespace longspan::cli
