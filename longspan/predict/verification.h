// What was predicted of a model beside what it does: counts and arena as integers, memory against
// the process's resident set, time against the clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "longspan/base/meter.h"
#include "longspan/learning/trainer.h"
#include "longspan/predict/check.h"
#include "longspan/predict/model_run.h"

namespace longspan {

// Work of a phase; equal unless the cost model is wrong.
struct CountCheck {
  std::string phase;  // "inference", then the phases of a training step
  Work predicted;
  Work measured;

  bool equal() const;
};

struct BytesCheck {
  std::size_t predicted = 0;
  std::size_t measured = 0;
};

// A training step: arena, weights, gradients and the optimiser's state.
struct MemoryCheck {
  BytesCheck arena;
  std::size_t weights = 0;
  std::size_t gradients = 0;
  std::size_t optimizer = 0;
  std::size_t resident = 0;  // what the process grew by at most

  std::size_t predicted() const { return arena.predicted + weights + gradients + optimizer; }
  // predicted / resident − 1, where both are large enough to tell.
  std::optional<double> error() const;
};

// Starts the threads and whatever the libraries keep, so that it does not count as anybody's.
void warm_up_process();

// Builds the model and takes one step. To be called first in a process: memory that was held
// before and given back can be used again without growth.
MemoryCheck check_memory(const ModelConfig& config, const RunShape& shape);

struct Verification {
  std::vector<CountCheck> counts;
  BytesCheck inference_arena;
  BytesCheck training_arena;
  Samples forward;
  Samples step;
  // Where there is a calibration.
  std::optional<TimePrediction> predicted_forward;
  std::optional<TimePrediction> predicted_step;

  bool counts_equal() const;
};

Verification verify(const ModelConfig& config, const RunShape& shape,
                    const Calibration* calibration);

}  // namespace longspan
