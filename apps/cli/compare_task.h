// longspan compare --task: every mechanism trained under one protocol, and how good it became.
#pragma once

#include <functional>
#include <string>

#include "command.h"
#include "compare_results.h"
#include "longspan/compare/compare_point.h"

namespace longspan::cli {

struct CompareTaskOptions {
  std::string task;  // NAME[:key=value,…]
  std::uint64_t seeds = 2;
  // What compare reads too.
  std::string attention;
  CompareSettings settings;
  std::uint64_t steps = 0;
  double learning_rate = 0.0;
  double budget = 0.0;
  ComparePlaces places;
  bool csv = false;
  std::function<bool(const std::string& flag)> typed;
};

void add_compare_task_options(CLI::App& command, CompareTaskOptions& options);
void run_compare_task(const CompareTaskOptions& options, const Common& common);

// Shows a record of such a comparison again.
void render_quality(const CompareTaskOptions& options, const Common& common);

}  // namespace longspan::cli
