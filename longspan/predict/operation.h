// A step as the calls it makes, each with the quantities on which its time depends: a dry step,
// recorded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/base/recorder.h"
#include "longspan/learning/optimizer.h"
#include "longspan/learning/rule.h"
#include "longspan/models/model.h"

namespace longspan {

struct Operation {
  std::string rate;  // what it is timed as: "product forward", "attention backward flash", …
  std::string layer;
  Phase phase = Phase::kForward;
  std::vector<double> x;
  std::uint64_t times = 1;
  std::uint64_t maccs = 0;  // of all times together
};

// Of "window" or "window:window=64".
std::string attention_rate(std::string_view mechanism, Phase phase);

std::vector<Operation> operations_of(const Recorder& recorder);

// Model::evaluate.
std::vector<Operation> forward_operations(const Model& model, const Batch& shape);
// A whole step of backpropagation: forward, backward, accumulation, clipping and the optimiser's
// update.
std::vector<Operation> step_operations(const Model& model, const Batch& shape,
                                       const OptimizerConfig& optimizer);
// The same of any rule; `model` is the rule's.
std::vector<Operation> step_operations(const Model& model, const Rule& rule, const Batch& shape,
                                       const OptimizerConfig& optimizer);

}  // namespace longspan
