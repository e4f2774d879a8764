// A pass of a model as the calls it makes, each with the quantities on which its time depends.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/learning/optimizer.h"
#include "longspan/models/model.h"

namespace longspan {

struct Operation {
  std::string rate;  // what it is timed as: "product forward", "attention backward flash", …
  std::string layer;
  Phase phase = Phase::kForward;
  std::vector<double> x;
  std::uint64_t maccs = 0;
};

std::string attention_rate(std::string_view specification, Phase phase);

// Forward without training is Model::evaluate. With training, a whole step: forward, backward,
// accumulation, clipping and the optimiser's update.
std::vector<Operation> forward_operations(const Model& model, const Batch& shape);
std::vector<Operation> step_operations(const Model& model, const Batch& shape,
                                       const OptimizerConfig& optimizer);

}  // namespace longspan
