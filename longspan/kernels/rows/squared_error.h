// Squared error of rows of numbers; a value that is NaN is missing.
//
// Metered (kAdd): 3 FLOPs per element to sum (subtraction, square, sum), 4 where the outputs are
// scaled too, 3 backward.
#pragma once

#include <cstddef>
#include <span>

#include "longspan/base/view.h"

namespace longspan {

struct SquaredErrorSum {
  double loss = 0.0;  // Σ (x − value)² over the values that are there
  std::size_t counted = 0;
};

// The number of values that are not missing.
std::size_t count_values(std::span<const float> values);

// The sum only; x is kept.
SquaredErrorSum squared_error(ConstMatrix x, ConstMatrix values);
// In place: x becomes scale·x (where the value is missing: zero).
SquaredErrorSum squared_error_forward(Matrix x, ConstMatrix values, float scale);
// In place: scale·x becomes 2·scale·(x − value), the gradient of scale·loss.
void squared_error_backward(Matrix x, ConstMatrix values, float scale);

}  // namespace longspan
