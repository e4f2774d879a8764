// How far a mechanism is from exact attention on the same tensors.
//
//   error of the output    ‖y − y*‖ / ‖y*‖           y* = softmax(q·kᵀ/√d)·v
//   error of the gradient  the same of (∂q, ∂k, ∂v) side by side, for one random ∂L/∂y
//
// Where keys are the queries (abilities().shared_qk), k_j = q_j/‖q_j‖ is what is exact, and ∂q holds
// both parts. What a mechanism learns is drawn, not trained.
#pragma once

#include "longspan/compare/attention_run.h"
#include "longspan/compare/compare_point.h"

namespace longspan {

// The gradient where the case has a backward pass.
CompareError approximation_error(const AttentionCase& c, AttentionTensors& tensors);

}  // namespace longspan
