#include "longspan/predict/predict.h"

#include <algorithm>
#include <cmath>

#include "longspan/base/error.h"
#include "longspan/predict/least_squares.h"

namespace longspan {

namespace {

// How much of a working set comes from memory: 0 to 1, by its logarithm.
double coldness(const Calibration& c, double bytes) {
  return std::clamp(std::log(bytes / c.caches) / std::log(c.memory / c.caches), 0.0, 1.0);
}

TimePrediction add_up(const Calibration& c, std::span<const Operation> operations,
                      std::size_t bytes, const Closing& closing) {
  TimePrediction p;
  for (const Operation& o : operations) {
    const double each =
        closing.factor * seconds_of(c, o, static_cast<double>(bytes)) + closing.call;
    const double seconds = static_cast<double>(o.times) * each;
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
  require(
      rates.warm.size() == o.x.size() && (rates.cold.empty() || rates.cold.size() == o.x.size()),
      "[predict] '{}' was calibrated with {} quantities, not {}; run longspan calibrate again",
      o.rate, rates.warm.size(), o.x.size());
  const double warm = dot(o.x, rates.warm);
  if (rates.cold.empty()) return warm;
  const double w = coldness(c, bytes);
  return (1.0 - w) * warm + w * dot(o.x, rates.cold);
}

std::size_t forward_bytes(const Model& model, const Batch& shape) {
  return model.inference_bytes(shape) + sizeof(float) * model.parameters().count();
}

std::size_t step_bytes(const Model& model, const Batch& shape, const OptimizerConfig& optimizer) {
  const std::size_t blocks = 2 + Optimizer::state_blocks(optimizer.kind);
  return model.training_bytes(shape) + sizeof(float) * blocks * model.parameters().count();
}

TimePrediction predict_forward(const Calibration& c, const Model& model, const Batch& shape) {
  return add_up(c, forward_operations(model, shape), forward_bytes(model, shape), c.forward);
}

TimePrediction predict_step(const Calibration& c, const Model& model, const Batch& shape,
                            const OptimizerConfig& optimizer) {
  return add_up(c, step_operations(model, shape, optimizer), step_bytes(model, shape, optimizer),
                c.training);
}

TimePrediction predict_step(const Calibration& c, const Model& model, const Rule& rule,
                            const Batch& shape, const OptimizerConfig& optimizer) {
  const std::size_t blocks = 2 + Optimizer::state_blocks(optimizer.kind);
  const std::size_t floats = rule.own_floats() + blocks * model.parameters().count();
  const std::size_t bytes = rule.walk(shape).peak + sizeof(float) * floats;
  return add_up(c, step_operations(model, rule, shape, optimizer), bytes, c.training);
}

}  // namespace longspan
