#include "longspan/measure/predict.h"

#include <algorithm>
#include <cmath>

#include "longspan/base/error.h"
#include "longspan/measure/least_squares.h"

namespace longspan {

namespace {

// How much of a working set comes from memory: 0 to 1, by its logarithm.
double coldness(const Calibration& c, double bytes) {
  return std::clamp(std::log(bytes / c.caches) / std::log(c.memory / c.caches), 0.0, 1.0);
}

TimePrediction add_up(const Calibration& c, std::span<const Operation> operations, double bytes,
                      const Closing& closing) {
  TimePrediction p;
  for (const Operation& o : operations) {
    const double seconds = closing.factor * seconds_of(c, o, bytes);
    p.by_layer[o.layer] += seconds;
    p.seconds += seconds;
  }
  // 1.64 deviations hold nine of ten; no machine repeats itself better than to a tenth.
  const double factor = std::exp(std::max(0.1, 1.64 * closing.spread));
  p.low = p.seconds / factor;
  p.high = p.seconds * factor;
  return p;
}

}  // namespace

double seconds_of(const Calibration& c, const Operation& o, double bytes) {
  const auto it = c.rates.find(o.rate);
  require(it != c.rates.end(), "[predict] '{}' was not calibrated; run longspan calibrate again",
          o.rate);
  const Rates& rates = it->second;
  const double warm = dot(o.x, rates.warm);
  if (rates.cold.empty()) return warm;
  const double w = coldness(c, bytes);
  return (1.0 - w) * warm + w * dot(o.x, rates.cold);
}

TimePrediction predict_forward(const Calibration& c, const Model& model, const Batch& shape) {
  const double bytes = static_cast<double>(model.inference_bytes(shape)) +
                       4.0 * static_cast<double>(model.parameters().count());
  return add_up(c, forward_operations(model, shape), bytes, c.forward);
}

TimePrediction predict_step(const Calibration& c, const Model& model, const Batch& shape,
                            const OptimizerConfig& optimizer) {
  const auto blocks = static_cast<double>(2 + Optimizer::state_blocks(optimizer));
  const double bytes = static_cast<double>(model.training_bytes(shape)) +
                       4.0 * blocks * static_cast<double>(model.parameters().count());
  return add_up(c, step_operations(model, shape, optimizer), bytes, c.training);
}

}  // namespace longspan
