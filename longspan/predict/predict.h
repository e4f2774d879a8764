// Predicted time of a pass on a calibrated machine, with an interval.
#pragma once

#include <map>
#include <string>

#include "longspan/learning/optimizer.h"
#include "longspan/models/model.h"
#include "longspan/predict/calibration.h"
#include "longspan/predict/operation.h"

namespace longspan {

struct TimePrediction {
  double seconds = 0.0;
  double low = 0.0;  // nine of ten runs on a quiet machine are expected within
  double high = 0.0;
  std::map<std::string, double> by_layer;  // seconds
};

// Of one call alone, without what closing adds. `bytes` is the working set.
double seconds_of(const Calibration& calibration, const Operation& operation, double bytes);

// The working set of Model::evaluate and of a step.
std::size_t forward_bytes(const Model& model, const Batch& shape);
std::size_t step_bytes(const Model& model, const Batch& shape, const OptimizerConfig& optimizer);

// Model::evaluate.
TimePrediction predict_forward(const Calibration& calibration, const Model& model,
                               const Batch& shape);
// Trainer::step under backpropagation.
TimePrediction predict_step(const Calibration& calibration, const Model& model, const Batch& shape,
                            const OptimizerConfig& optimizer);
// Under any rule; `model` is the rule's.
TimePrediction predict_step(const Calibration& calibration, const Model& model, const Rule& rule,
                            const Batch& shape, const OptimizerConfig& optimizer);

}  // namespace longspan
