// longspan cost: what a model costs, as the paper prints it, as it should have, and as the engine
// does it.
#include "cost.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "calibration_cache.h"
#include "command.h"
#include "longspan/base/config.h"
#include "longspan/cost/rule_walk.h"
#include "modes.h"
#include "verify.h"

namespace longspan::cli {

namespace {

// The entry of `all` that is called `name`, or all of them.
template <class T, std::size_t count>
std::vector<T> chosen(std::string_view what, const std::string& name,
                      const std::array<T, count>& all) {
  if (name == "all") return {all.begin(), all.end()};
  std::vector<std::string_view> known = {"all"};
  for (const T value : all) {
    if (name_of(value) == name) return {value};
    known.push_back(name_of(value));
  }
  throw_unknown("cost", what, name, known);
}

}  // namespace

LearningRule rule_from(const std::string& name) {
  const bool all = name.empty() || name == "all";
  return all ? LearningRule::kBackprop : chosen("rule", name, kLearningRules).front();
}

void add_integer(CLI::App& command, const std::string& name, std::optional<Integer>& value,
                 const std::string& text, const std::string& group) {
  static constexpr Bounds kIntegers = from_to(1, 1e24);
  add_read(command, name, text, ends_in_words(kIntegers), group,
           [&command, &value, name](const std::string& written) {
             const std::optional<double> number = longspan::detail::decimal_from(written);
             if (!number || !kIntegers.has(*number) || *number != std::floor(*number)) {
               longspan::detail::refuse_number(command.get_name(), name,
                                               fmt::format("'{}'", written), kIntegers, true);
             }
             value = static_cast<Integer>(*number);
           });
}

namespace {

// Whether what the paper has beside the engine's counts is of interest: of a model of its own
// architecture, to programs, and to whoever asks for it.
bool wants_paper(const CostOptions& o, bool for_programs) {
  const bool asked =
      !o.rule.empty() || !o.view.empty() || o.formula || o.latex || !o.solve.what.empty();
  return o.model.model.empty() || for_programs || asked;
}

// Whether a rule compares two passes, which may be done in several ways.
bool has_terms(LearningRule rule) {
  return rule == LearningRule::kPepita || rule == LearningRule::kMempepita;
}

// All: those of the paper, where two passes of the model can be compared.
std::vector<LearningRule> shown_rules(const CostOptions& o, const Workload& workload,
                                      bool beside_paper) {
  if (o.rule.empty() || o.rule == "all") {
    if (!workload.comparable() || !beside_paper) return {LearningRule::kBackprop};
    return {kPaperRules.begin(), kPaperRules.end()};
  }
  const LearningRule rule = rule_from(o.rule);
  require(workload.comparable() || !has_terms(rule),
          "[cost] {} compares two passes, which this model's layers do not allow; need --rule bp",
          o.rule);
  return {rule};
}

TimePrediction predicted(const Calibration& machine, const Workload& workload, const Model& model,
                         LearningRule rule, const OptimizerConfig& optimizer) {
  if (in_paper(rule)) return predict_step(machine, model, workload.shape(), optimizer);
  const RuleWalk walk(workload.model, rule);
  return predict_step(machine, walk.model(), walk.rule(), workload.shape(), optimizer);
}

CostReport make_report(const CostOptions& o, const Workload& workload, const Model& model,
                       const Common& common) {
  const bool for_programs = common.json || o.csv;
  CostReport report;
  report.workload = workload;
  report.parameters = count_parameters(workload, model);
  report.summary = summarize(model);
  const auto of_paper = [&](CostView view) {
    return workload.in_paper() ? paper_counts(workload, view, o.terms) : ViewCounts{};
  };
  report.views = {of_paper(CostView::kPrinted), of_paper(CostView::kCorrected),
                  executed_counts(workload, model, o.terms)};
  report.beside_paper = wants_paper(o, for_programs);
  report.shown_rules = shown_rules(o, workload, report.beside_paper);
  report.rules_were_chosen = !o.rule.empty() && o.rule != "all";
  const LearningRule main = report.main_rule();
  if (!in_paper(main)) {
    ViewCounts& executed = report.views.back();
    executed.rules.push_back(walked_counts(workload, main));
    executed.error_projection = {};
    executed.rule_overhead = executed.rules.back().phase(CostPhase::kRuleOverhead);
  }
  const auto memory_of = [&](LearningRule rule) {
    return memory_use(workload, model, report.parameters, element_type(o.dtype), o.optimizer, rule,
                      o.terms);
  };
  report.memory = memory_of(main);
  for (const LearningRule rule : report.shown_rules) {
    report.rule_memory.emplace(rule, rule == main ? report.memory : memory_of(rule));
  }
  report.optimizer = optimizer_step(o.optimizer, report.parameters);
  if (const std::optional<Calibration> machine = known_calibration(common)) {
    report.time = predicted(*machine, workload, model, main, {.kind = o.optimizer});
    report.device = device_of(*machine).name;
  }
  for (ViewCounts& view : report.views) {
    for (RuleCounts& rule : view.rules) rule.phase(CostPhase::kOptimizer) = report.optimizer;
  }
  report.optimizer_name = o.optimizer.name();
  report.dtype = o.dtype;
  const bool papers = workload.in_paper() && in_paper(main);
  const std::string view = !o.view.empty() ? o.view : for_programs && papers ? "all" : "executed";
  report.shown_views = chosen("view", view, kCostViews);
  require(workload.in_paper() || view == "executed",
          "[cost] the paper does not have all of this model's layers; need --view executed");
  require(in_paper(main) || view == "executed",
          "[cost] the paper does not have the rule {}; need --view executed", name_of(main));
  report.tokens = o.tokens;
  return report;
}

CostReport report_of(const CostOptions& o, const Workload& workload, const Common& common) {
  return make_report(o, workload, Model(workload.model), common);
}

void run(const CostOptions& o, const Common& common) {
  require(o.by == "layer" || o.by == "phase", "[cost] --by {}; need layer or phase", o.by);
  require(!common.json || o.by == "layer", "[cost] --by with --json, which has both; leave it out");
  if (o.scaling) return print_scaling(common.json);
  check_budget(o.solve, o.verify);
  if (!o.solve.what.empty() && o.solve.what != "crossovers") {
    require(o.typed_term.empty() || has_terms(rule_from(o.rule)),
            "[cost] {} with --rule {}, which has no such choice", o.typed_term,
            name_of(rule_from(o.rule)));
    return print_solution(o, common.json);
  }
  const Workload workload = workload_from(o.model);
  if (!workload.note.empty()) fmt::print(stderr, "note: {}\n", workload.note);
  require(!o.verify || rule_from(o.rule) == LearningRule::kBackprop,
          "[cost] --rule {} with --verify, which runs backpropagation; need --rule bp", o.rule);
  if (o.verify) return print_verification(workload, {.memory = !o.solve.memory.empty()}, common);
  const CostReport report = report_of(o, workload, common);
  const bool asks_paper = !o.solve.what.empty() || o.formula || o.latex || !o.as.empty();
  require(workload.in_paper() || !asks_paper,
          "[cost] formulas, crossovers and other tools' counts are those of attention and dense "
          "layers; this model has others");
  require(in_paper(report.main_rule()) || !asks_paper,
          "[cost] formulas, crossovers and other tools' counts are not of the rule {}; need --rule "
          "bp",
          o.rule);
  const bool compares = std::ranges::any_of(report.shown_rules, &has_terms);
  require(compares || o.typed_term.empty(), "[cost] {} with --rule {}, which has no such choice",
          o.typed_term, name_of(report.main_rule()));
  check_error_space(o, workload);
  if (!o.solve.what.empty()) return print_crossovers(report, common.json);
  require((!o.formula && !o.latex) || is_full(workload),
          "[cost] the formulas are those of full attention, not of {}; need --attention full",
          workload.model.attention);
  if (o.formula || o.latex) return print_formulas(report, o.latex, common.json);
  std::optional<ConventionReport> as;
  if (!o.as.empty()) as = report_as(o.as, workload, Model(workload.model));
  std::optional<CostReport> other;
  if (!o.diff.empty()) {
    other = report_of(o, other_workload(o.model, o.diff), common);
  }
  if (common.json) return print_json(report, as ? &*as : nullptr, other ? &*other : nullptr);
  if (o.csv) return print_csv(report);
  if (as) return print_convention(*as);
  if (other) return print_difference(report, *other);
  print_tables(report, o.by);
}

// What asks for something else than the tables, and what else it reads.
Modes modes(bool crossovers) {
  // The crossovers of the formulas are those of plain dimensions.
  if (crossovers) {
    return Modes().only("--solve",
                        {"--model", "--encoder-layers", "--decoder-layers", "--d-model", "--heads",
                         "--d-ff", "--vocab", "--head", "--length", "--target-length"});
  }
  const Modes::Names model = {"Model", "Variants"};
  const auto and_also = [&](Modes::Names more) {
    more.insert(more.end(), model.begin(), model.end());
    return more;
  };
  return Modes()
      .only("--scaling", {})
      .only("--verify", and_also({"--memory", "--rule"}))
      .only("--solve", and_also({"Inverse questions", "Assumptions", "--rule", "--tokens"}))
      .only("--formula", and_also({"--rule", "--view"}))
      .only("--latex", and_also({"--view"}))
      .only("--as", model)
      .apart("--diff", {"--by", "--csv", "--tokens"})
      .apart("--csv", {"--by", "--tokens", "--dtype"})
      .apart("--inference", {"--rule", "--optimizer", "--checkpointing", "--frozen-layers",
                             "--last-layer", "--error-space", "--injection"})
      .needs({"--memory"}, {"--solve", "--verify"})
      .needs({"--flops", "--against", "--inference"}, {"--solve"});
}

void add_report_options(CLI::App& command, CostOptions& o) {
  const char* group = "Report";
  command.add_option("--view", o.view, "printed, corrected, executed or all")->group(group);
  add_text(command, "--rule", o.rule,
           "bp, pepita, mempepita, fa, dfa; all: those of the paper, the first three, as for plain "
           "dimensions unless given",
           group);
  add_text(command, "--by", o.by, "layer or phase", group);
  add_integer(command, "--tokens", o.tokens, "Tokens of a whole run: 300e9", group);
  command.add_flag("--formula", o.formula, "The formulas, with their equations")->group(group);
  command.add_flag("--latex", o.latex, "The formulas as LaTeX")->group(group);
  command.add_flag("--scaling", o.scaling, "Why scores are divided by √d_k, sampled")->group(group);
  command.add_option("--diff", o.diff, "Beside another model, or this one with key=value,…")
      ->group(group);
  command.add_option("--as", o.as, "What fvcore, thop, ptflops, torch, … would report")
      ->group(group);
  command.add_flag("--csv", o.csv, "Comma-separated values")->group(group);
  command
      .add_flag("--verify", o.verify,
                "Runs the model: predicted beside measured counts, memory, time")
      ->group(group);
  group = "Assumptions";
  add_choice(command, "--optimizer", o.optimizer, "", group);
  add_text(command, "--dtype", o.dtype, "fp32, fp16, bf16, fp64 or int8", group);
  add_choice(command, "--last-layer", o.terms.last_layer, "PEPITA's signal to the last layer",
             group);
  add_choice(command, "--error-space", o.terms.error_space, "Where PEPITA projects the error",
             group);
  add_choice(command, "--injection", o.terms.injection, "Where PEPITA adds it", group);
}

}  // namespace

void check_error_space(const CostOptions& o, const Workload& workload) {
  require(
      o.typed_term != "--error-space" || workload.model.family == Family::kEncoderDecoder,
      "[cost] --error-space with the model {}, whose error has one space; need an encoder and a "
      "decoder",
      workload.model.family);
}

CountValue CostReport::of_run(const CountValue& step) const {
  if (!tokens) return step;
  const auto per_step = static_cast<Integer>(workload.tokens());
  const CountValue all = *tokens * step;
  return {all.maccs / per_step, all.flops / per_step};
}

LearningRule CostReport::main_rule() const {
  return in_paper(shown_rules.front()) ? LearningRule::kBackprop : shown_rules.front();
}

bool CostReport::backprop_only() const {
  return rules_were_chosen && shown_rules.front() == LearningRule::kBackprop;
}

void add_cost(CLI::App& app, const Common& common) {
  CLI::App* command =
      app.add_subcommand("cost", "MACCs, FLOPs, parameters and memory of any transformer");
  const auto options = std::make_shared<CostOptions>();
  add_model_options(*command, options->model);
  add_report_options(*command, *options);
  add_solve_options(*command, options->solve);
  command->footer(
      "Examples:\n"
      "  longspan cost --model bert-base --length 128\n"
      "  longspan cost --model gpt3-175b --tokens 300e9 --view all\n"
      "  longspan cost --encoder-layers 1 --d-model 64 --heads 4 --d-ff 256 --vocab 1000 \\\n"
      "    --length 128 --view all --formula\n"
      "  longspan cost --model gpt2 --diff attention=flash\n"
      "  longspan cost --model llama-2-7b --as fvcore --length 128\n"
      "  longspan cost --model gpt2 --attention flash --solve length --memory 16GiB");
  command->callback([options, command, &common] {
    modes(options->solve.what == "crossovers").check(*command);
    for (const char* term : {"--last-layer", "--injection", "--error-space"}) {
      if (command->count(term) > 0) options->typed_term = term;
    }
    run(*options, common);
  });
}

}  // namespace longspan::cli
