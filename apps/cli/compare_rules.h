// longspan compare --rules: one model under every learning rule.
#pragma once

#include <cstdint>
#include <string>

#include "command.h"
#include "longspan/learning/trainer.h"
#include "longspan/models/model.h"

namespace longspan::cli {

// What --rules and --task both read; what a task's protocol says where nothing is typed.
inline constexpr const char* kCompareTraining = "Training (--rules, --task)";

struct CompareRulesOptions {
  CompareRulesOptions() { train.schedule.warmup = 20; }

  bool rules = false;
  std::string data;
  ModelConfig model;
  TrainConfig train;
  std::uint64_t steps = 300;  // of backpropagation; the others have as many, and as much compute
  std::size_t length = 64;
  std::size_t batch = 12;
  std::size_t eval_windows = 200;
};

// `--rules` and what belongs to it, in a group of its own; model, length and batch are compare's.
void add_compare_rules_options(CLI::App& command, CompareRulesOptions& options);
void run_compare_rules(const CompareRulesOptions& options, const Common& common);

}  // namespace longspan::cli
