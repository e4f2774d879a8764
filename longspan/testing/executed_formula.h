// What a model executes, worked out from its config alone: no code of layers or models is used, so
// that what they count can be held against it. Only the mechanisms say themselves what they do;
// their own tests count that inside their loops.
//
// M rows of a stack, d wide, f hidden, v outputs, r the rank of adapters; packed sequences have as
// many rows as tokens, and a mechanism computes neighbours of one length together. Per sublayer
//
//   products of x [M, in] with W [out, in]   M·in·out MACCs in each phase, none where W is frozen;
//                                            its bias M·out FLOPs forward and update
//   add & norm      LayerNorm 8d + 5 forward, 9d + 2 backward, 3d update a row (RMSNorm 5d + 4,
//                   7d + 1, 2d), the residual addition among them; dropout d more each way, but for fnet
//                   RMSNorm has no β; without β d less forward and update, without γ the update is d. A
//                   sandwich has two norms, parallel branches that share one norm one a layer
//   queries, keys   where they are normed, a norm of every head or of all side by side; rotary
//                   positions 3 an element that turns each way
//   convolution     w·d MACCs a real row in each phase, its bias d FLOPs forward and update
//   recomputed      (reversible, checkpointed) backward has the forward once more
//   loss            cross-entropy 5 forward an output and 1 backward a counted row; squared error 4 (3
//                   where nothing is trained) and 3 an output; with a teacher, in training, 24 an output
//                   of a counted row forward, and with its hidden states 3d and 5d MACCs a counted row
//   logits          a constant bias 1 forward; a scale 1 for each input of the output layer each way; a
//                   cap 3 forward, 3 backward
//   stages          as in executed_stages.h
//   frozen          the first layers have no backward and no update
//   perceptron      its first layer has no product backward
//
// after formulas.md A.4 of the documents that the project grew from.
#pragma once

#include "longspan/base/batch.h"
#include "longspan/base/cost.h"
#include "longspan/models/config.h"

namespace longspan::testing {

// By the meter's names.
CostTable executed_formula(const ModelConfig& config, const Batch& batch, bool training);

}  // namespace longspan::testing
