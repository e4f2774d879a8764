// Softmax of rows and the cross-entropy built on it.
//
// Metered (kSoftmax): 5 FLOPs per element forward (maximum, subtraction, exponential, sum,
// division), 4 backward. Rows whose elements are all −∞ become zeros; +∞ is taken for the largest
// float, and a row with a NaN is NaN.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "longspan/base/batch.h"
#include "longspan/base/view.h"

namespace longspan {

// p = softmax(x) in place, row by row.
void softmax_forward(Matrix x);
// The same on the calling thread, unmetered.
void softmax_serial(Matrix x);
// ds = p⊙(dp − Σ p⊙dp), row by row; ds may be dp. Serial and unmetered like softmax_serial.
void softmax_backward_serial(ConstMatrix p, ConstMatrix dp, Matrix ds);

struct CrossEntropy {
  double loss = 0.0;        // Σ over counted rows of −log softmax(x)[target]
  std::size_t counted = 0;  // rows whose target is not kIgnoredTarget
  std::size_t correct = 0;  // counted rows whose largest logit is the target
};

// The number of targets that are not ignored.
std::size_t count_targets(std::span<const std::int32_t> targets);

// One target per row. How many of them count is known beforehand: a dry step has no others.
struct Targets {
  std::span<const std::int32_t> ids;
  std::size_t counted = 0;

  Targets() = default;
  Targets(std::span<const std::int32_t> ids_, std::size_t counted_)
      : ids(ids_), counted(counted_) {}
  Targets(std::span<const std::int32_t> ids_)  // NOLINT(google-explicit-constructor)
      : Targets(ids_, count_targets(ids_)) {}
  Targets(const std::vector<std::int32_t>& ids_)  // NOLINT(google-explicit-constructor)
      : Targets(std::span(ids_)) {}
};

// Loss only; x is kept. Metered 5 per element.
CrossEntropy cross_entropy(ConstMatrix x, const Targets& targets);
// In place: x becomes scale·softmax(x) (rows that are ignored: zeros). Metered 5 per element.
CrossEntropy cross_entropy_forward(Matrix x, const Targets& targets, float scale);
// The gradient of scale·loss: x[i, target_i] −= scale. Metered 1 per counted row.
void cross_entropy_backward(Matrix x, const Targets& targets, float scale);

}  // namespace longspan
