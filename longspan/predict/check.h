// Predicted against measured time, over a grid of models, mechanisms and lengths that calibration
// did not see.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/predict/calibration.h"
#include "longspan/predict/model_run.h"
#include "longspan/predict/predict.h"
#include "longspan/predict/sampling.h"

namespace longspan {

struct TimeCheck {
  TimePrediction predicted;
  Samples measured;

  // predicted / measured − 1
  double error() const { return predicted.seconds / measured.median() - 1.0; }
};

struct GridPoint {
  std::string name;  // of the model
  ModelConfig config;
  RunShape shape;
};

struct CheckedPoint {
  GridPoint point;
  TimeCheck forward;
  TimeCheck step;
};

// At least forty points; every mechanism of the registry is in it.
std::vector<GridPoint> check_grid();

// All points take their turns together. `report` is told how many there are.
std::vector<CheckedPoint> check_times(const Calibration& calibration,
                                      const std::function<void(std::string_view)>& report);

struct ErrorSummary {
  double median = 0.0;  // of |error|
  double worst = 0.0;
  double spread = 0.0;  // median of the measurements' own
};
ErrorSummary summarize(const std::vector<CheckedPoint>& points, bool step);

}  // namespace longspan
