// What of a comparison fits a time budget and the memory, decided from the predictions.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "longspan/compare/compare_case.h"

namespace longspan {

struct PlanRequest {
  CompareSettings settings;
  std::vector<std::string> attention;  // specifications; the first that is flash leads each length
  std::vector<std::uint64_t> lengths;  // empty: doubling from 256 as far as the budget goes
  std::uint64_t rounds = 5;            // at most
  double memory = 0.0;                 // bytes that may be used
};

struct PlannedPoint {
  CompareCase what;
  CasePrediction prediction;
  bool measured = false;  // is to be
  double seconds = 0.0;   // that measuring it takes
  std::uint64_t rounds = 0;
  std::optional<PointStatus> status;  // nothing yet, or refused or skipped with the reason
  std::string reason;
};

struct ComparePlan {
  std::vector<std::uint64_t> lengths;
  std::vector<PlannedPoint> points;  // length by length; those to measure by rising time
  double seconds = 0.0;              // of all that is to be measured
};

inline constexpr std::uint64_t kShortestCompared = 256;
// What is not measured is predicted up to here.
inline constexpr std::uint64_t kPredictedLength = 16384;
inline constexpr std::uint64_t kLongestCompared = 1U << 20U;

// Throws Error for lengths that are not compared.
void check_lengths(const PlanRequest& request);

// `known(attention, length)`: it need not be measured again.
ComparePlan plan_comparison(const Calibration& calibration, const PlanRequest& request,
                            const std::function<bool(const std::string&, std::uint64_t)>& known);

}  // namespace longspan
