// Cross-entropy of answers yes or no: each score x is the logit of yes, and its target 1, 0 or
// ignored.
//
//   o = σ(x)      L = log(1 + e^x) − target·x      ∂L/∂x = o − target
//
// Metered (kSoftmax): 5 FLOPs per score forward (−, exponential, sum, division, logarithm), one per
// counted score backward. Scores whose target is ignored become zeros.
#pragma once

#include "longspan/base/view.h"
#include "longspan/kernels/rows/softmax.h"

namespace longspan {

// One target per score, row by row. The loss only; x is kept. Correct are those on their side of 0,
// which itself is a no.
CrossEntropy binary_cross_entropy(ConstMatrix x, const Targets& targets);
// In place: x becomes scale·σ(x).
CrossEntropy binary_cross_entropy_forward(Matrix x, const Targets& targets, float scale);
// The gradient of scale·loss: x −= scale·target.
void binary_cross_entropy_backward(Matrix x, const Targets& targets, float scale);

}  // namespace longspan
