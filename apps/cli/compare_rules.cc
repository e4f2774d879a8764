#include "compare_rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "cost.h"
#include "longspan/base/error.h"
#include "longspan/base/memory.h"
#include "longspan/predict/sampling.h"
#include "longspan/tasks/registry.h"
#include "longspan/training/evaluate.h"
#include "table.h"

namespace longspan::cli {

namespace {

struct RuleResult {
  std::string name;
  Work work;  // of a step, without the optimiser
  StepMemory memory;
  double seconds = 0.0;  // median of a step
  double loss = 0.0;     // validation, after as many steps
  std::uint64_t compute_steps = 0;
  double compute_loss = 0.0;  // after as many FLOPs
  bool finite = true;
};

Work total(const CostTable& table) {
  Work sum;
  for (const auto& [layer, cost] : table) sum += cost.forward + cost.backward + cost.update;
  return sum;
}

class RuleRun {
 public:
  RuleRun(const CompareRulesOptions& o, Task& task, std::string_view rule)
      : o_(o), task_(task), model_(o.model) {
    model_.allocate(o.train.seed);
    TrainConfig config = o.train;
    config.rule = rule;
    config.schedule.total = o.steps;
    trainer_ = std::make_unique<Trainer>(model_, config);
    const Batch shape{.batch = o.batch, .length = o.length};
    result_.name = rule;
    result_.work = total(trainer_->rule().cost(shape));
    result_.memory = trainer_->rule().walk(shape);
  }

  const Work& work() const { return result_.work; }

  RuleResult run(std::uint64_t budget) {
    result_.compute_steps = budget / result_.work.flops();
    std::vector<double> seconds;
    for (std::uint64_t step = 0; step < std::max(o_.steps, result_.compute_steps); ++step) {
      const Batch batch = task_.training_batch(o_.train.seed, step, o_.batch, memory_);
      const double start = stopwatch_seconds();
      result_.finite = trainer_->step({&batch, 1}).finite && result_.finite;
      seconds.push_back(stopwatch_seconds() - start);
      if (step + 1 == o_.steps) result_.loss = judge();
      if (step + 1 == result_.compute_steps) result_.compute_loss = judge();
    }
    std::ranges::sort(seconds);
    result_.seconds = seconds[seconds.size() / 2];
    return result_;
  }

 private:
  double judge() {
    return evaluate(model_, task_, task_.held_out(), {.batch = o_.batch, .limit = o_.eval_windows})
        .loss();
  }

  const CompareRulesOptions& o_;
  Task& task_;
  BatchMemory memory_;
  Model model_;
  std::unique_ptr<Trainer> trainer_;
  RuleResult result_;
};

void print_json(const CompareRulesOptions& o, const std::vector<RuleResult>& results) {
  nlohmann::json json = {{"steps", o.steps}, {"rules", nlohmann::json::array()}};
  for (const RuleResult& r : results) {
    json["rules"].push_back({{"rule", r.name},
                             {"maccs", r.work.maccs},
                             {"flops", r.work.flops()},
                             {"activations", r.memory.kept},
                             {"arena", r.memory.peak},
                             {"seconds_per_step", r.seconds},
                             {"validation_loss", r.loss},
                             {"equal_compute_steps", r.compute_steps},
                             {"equal_compute_loss", r.compute_loss},
                             {"diverged", !r.finite}});
  }
  fmt::print("{}\n", json.dump(2));
}

void print_table(const CompareRulesOptions& o, const std::vector<RuleResult>& results) {
  Table table({{"rule"},
               {"MACCs", true, false, "of a step"},
               {"FLOPs", true, false, "of a step"},
               {"kept", true, false, "of a step"},
               {"arena", true, false, "of a step"},
               {"ms", true, false, "of a step"},
               {fmt::format("{} steps", o.steps), true, false, "loss after"},
               {"equal compute", true, false, "loss after"}});
  for (const RuleResult& r : results) {
    const std::string loss = fmt::format("{:.4f}", r.loss);
    const std::string equal = fmt::format("{:.4f} ({} steps)", r.compute_loss, r.compute_steps);
    table.add({r.name, with_unit(static_cast<Integer>(r.work.maccs)),
               with_unit(static_cast<Integer>(r.work.flops())), format_bytes(r.memory.kept),
               format_bytes(r.memory.peak), fmt::format("{:.2f}", 1e3 * r.seconds),
               r.finite ? loss : "diverged", r.finite ? equal : "diverged"});
  }
  table.print();
}

}  // namespace

void add_compare_rules_options(CLI::App& command, CompareRulesOptions& o) {
  const std::string group = "Learning rules (--rules)";
  command.add_flag("--rules", o.rules, "One model under every learning rule")->group(group);
  add_text(command, "--text", o.data, "The text file that the model learns", group);
  add_number(command, "--steps", o.steps,
             "Steps of each rule, or of each trial of --task, there its protocol's",
             from_to(1, 1e9), kCompareTraining);
  add_choice(command, "--optimizer", o.train.optimizer.kind, "", group);
  add_number(command, "--lr", o.train.schedule.peak,
             "Highest learning rate; of --task its protocol's",
             bounds_of(o.train, o.train.schedule.peak), kCompareTraining);
  add_number(command, "--feedback-scale", o.train.feedback.scale, "Of the error that is sent back",
             bounds_of(o.train, o.train.feedback.scale), group);
  add_choice(command, "--branch-signal", o.train.feedback.branch_signal, "", group);
  add_choice(command, "--learners", o.train.feedback.learners, "", group);
  add_choice(command, "--injection", o.train.feedback.injection, "", group);
  add_choice(command, "--last-layer", o.train.feedback.last_layer, "", group);
}

void run_compare_rules(const CompareRulesOptions& given, const Common& common) {
  CompareRulesOptions o = given;
  require(!o.data.empty(), "[compare] no text to learn; need --text FILE");
  const auto task =
      find_task("text").make({{"data", o.data}, {"length", std::to_string(o.length)}});
  task->open();
  task->examples(Split::kTraining);
  o.model.vocab = task->needs().vocabulary;
  o.model.max_length = o.length;
  o.train.schedule.floor = std::min(o.train.schedule.floor, o.train.schedule.peak);
  std::vector<RuleResult> results;
  std::uint64_t budget = 0;
  for (const RuleEntry& rule : rules()) {
    std::unique_ptr<RuleRun> run;
    try {
      run = std::make_unique<RuleRun>(o, *task, rule.name);
    } catch (const Error& error) {
      if (results.empty()) throw;  // not even backpropagation
      if (!common.quiet) fmt::print(stderr, "{}: left out: {}\n", rule.name, error.what());
      continue;
    }
    if (budget == 0) budget = o.steps * run->work().flops();  // backpropagation is the first
    results.push_back(run->run(budget));
    if (!common.quiet && !common.json) fmt::print(stderr, "{}: done\n", rule.name);
  }
  if (common.json) {
    print_json(o, results);
  } else {
    print_table(o, results);
  }
}

}  // namespace longspan::cli
