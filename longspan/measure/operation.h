// A pass of a model as the calls it makes, each with the quantities on which its time depends.
//
//   product     MACCs; what is read of A and B and written of C; tiles; calls
//   rows        elements; rows; calls           norms, activations, additions, look-ups, steps
//   attention   MACCs; softmax; other FLOPs; queries; calls       what Model::cost says of the
//               mechanism: the layer's cost less its projections
//
// Quantities are those of the thread with the most to do: work that is cut into c pieces takes
// ⌈c/T⌉ rounds on T threads.
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

// C m×n, inner k.
std::vector<double> product_quantities(std::size_t m, std::size_t n, std::size_t k);
// `calls` is 0 for work that is done inside another call.
std::vector<double> row_quantities(std::size_t rows, std::size_t cols, double calls = 1.0);
std::vector<double> attention_quantities(double queries, const Work& work);

std::string attention_rate(std::string_view specification, Phase phase);

// Forward without training is Model::evaluate. With training, a whole step: forward, backward,
// accumulation, clipping and the optimiser's update.
std::vector<Operation> forward_operations(const Model& model, const Batch& shape);
std::vector<Operation> step_operations(const Model& model, const Batch& shape,
                                       const OptimizerConfig& optimizer);

}  // namespace longspan
