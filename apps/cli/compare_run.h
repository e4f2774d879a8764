// Measures what a plan has chosen: a process for each mechanism and length, which take turns.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "longspan/compare/compare_plan.h"
#include "progress.h"

namespace longspan::cli {

struct CompareRun {
  CompareRoofline roofline;
  double memory = 0.0;    // bytes that processes may hold together
  double deadline = 0.0;  // seconds from the start after which nothing more is begun
  bool quiet = false;
  // Is given the points of each length when they are done.
  std::function<void(const std::vector<ComparePoint>&)> done;
};

// True if all of it was done, false if the user pressed Ctrl-C: what was measured is kept.
bool run_comparison(const ComparePlan& plan, const CompareRun& options);

// The point as far as the plan knows it.
ComparePoint predicted_point(const PlannedPoint& planned);

}  // namespace longspan::cli
