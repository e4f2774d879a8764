// The parts of `longspan cost`: its options, the report that they ask for, and the ways to print
// it.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "longspan/cost/conventions.h"
#include "longspan/cost/counts.h"
#include "longspan/cost/memory_use.h"
#include "longspan/cost/model_summary.h"
#include "longspan/predict/predict.h"
#include "stage_flags.h"

namespace longspan::cli {

// A model as the command line describes it: a preset, a file, or dimensions; what is not given is
// the model's own, or the paper's architecture.
struct ModelOptions {
  std::string model;     // name of a preset, config.json, or a directory with one
  bool verbose = false;  // fields of a config.json that change nothing are named
  std::optional<std::size_t> encoder_layers, decoder_layers;
  std::optional<std::size_t> d_model, heads, kv_heads, d_ff, vocab, classes, max_length;
  std::optional<std::size_t> length, target_length, batch;
  std::vector<std::int32_t> lengths;
  std::optional<std::string> attention;  // the model's own, or full
  std::optional<std::string> decoder_attention, cross_attention;
  std::optional<std::string> feed_forward, head;
  std::optional<Choice<Wiring>> wiring;
  std::optional<Choice<NormKind>> norm;
  std::optional<Choice<Activation>> activation;
  std::optional<Choice<PositionKind>> positions;
  std::optional<std::size_t> axial_rows, axial_width;
  StageFlags stages;
  std::optional<std::size_t> frozen_layers, lora_rank;
  bool causal = false;
  bool gated = false;
  bool tied = false;
  bool untied = false;
  bool no_bias = false;
  bool attention_bias = false;
  bool checkpointing = false;
};
void add_model_options(CLI::App& command, ModelOptions& options);
// Checked: what comes back can be counted.
Workload workload_from(const ModelOptions& options);
// "attention=flash,kv_heads=8" changes the model; anything else is a model of its own.
Workload other_workload(const ModelOptions& options, const std::string& other);

// What --solve is about: "crossovers" of the formulas, or length, batch or width.
struct SolveOptions {
  std::string what;
  std::string memory;  // a budget; "resident": what --verify is to look at
  std::optional<Integer> flops;
  std::string against;  // two mechanisms, or one beside --attention
  bool inference = false;
};

struct CostOptions {
  ModelOptions model;
  std::string view;  // empty: all for programs, executed for people
  std::string rule;  // empty: all of plain dimensions and for programs, bp of a --model
  std::string by = "layer";
  std::optional<Integer> tokens;
  std::string diff;
  std::string as;
  Choice<OptimizerKind> optimizer = OptimizerKind::kAdam;
  std::string dtype = "fp32";
  RuleTerms terms;
  std::string typed_term;  // an option of them that was typed
  bool formula = false;
  bool latex = false;
  SolveOptions solve;
  bool scaling = false;
  bool csv = false;
  bool verify = false;
};

LearningRule rule_from(const std::string& name);
// Refuses --error-space where the error has one space only.
void check_error_space(const CostOptions& o, const Workload& workload);
// A whole number that 64 bits may not hold: "300e9", "1e24".
void add_integer(CLI::App& command, const std::string& name, std::optional<Integer>& value,
                 const std::string& text, const std::string& group);

struct CostReport {
  Workload workload;
  ModelSummary summary;
  ParameterCounts parameters;
  std::vector<ViewCounts> views;                  // as kCostViews
  MemoryUse memory;                               // of the main rule
  std::map<LearningRule, MemoryUse> rule_memory;  // of the shown ones
  CountValue optimizer;                           // one step of it
  // On this machine, a training step by the main rule; nothing where it is not calibrated.
  std::optional<TimePrediction> time;
  std::string device;
  std::string optimizer_name;
  std::string dtype;
  std::vector<CostView> shown_views;
  std::vector<LearningRule> shown_rules;
  bool rules_were_chosen = false;  // not all of them
  // Whether the paper's rules, views and notes are shown beside what the engine does: of its own
  // architecture, and where they are asked for.
  bool beside_paper = true;
  // Of a whole run; nothing: one step.
  std::optional<Integer> tokens;

  const ViewCounts& view(CostView which) const { return views[static_cast<std::size_t>(which)]; }
  // A step's count for all tokens of the run.
  CountValue of_run(const CountValue& step) const;
  // Backpropagation, unless a rule was chosen that the engine alone has.
  LearningRule main_rule() const;
  // Whether a sum of updates is BP's alone.
  bool backprop_only() const;
};

void print_tables(const CostReport& report, const std::string& by);
void print_json(const CostReport& report, const ConventionReport* as, const CostReport* other);
void print_csv(const CostReport& report);
void print_difference(const CostReport& report, const CostReport& other);
void print_convention(const ConventionReport& report);
void print_formulas(const CostReport& report, bool latex, bool json);
void print_crossovers(const CostReport& report, bool json);
void print_scaling(bool json);
void add_solve_options(CLI::App& command, SolveOptions& options);
// Throws Error where there is a budget that nothing asks for, or --memory without one.
void check_budget(const SolveOptions& options, bool verifies);
void print_solution(const CostOptions& options, bool json);

// "12.5 ms", "5.03 s", "3 min 20 s", "5 h 3 min", "2 d 4 h"
std::string spoken_time(double seconds);

// 8781824 → "8.782 M", 3.2e23 → "323.0 Z".
std::string with_unit(Integer value);

}  // namespace longspan::cli
