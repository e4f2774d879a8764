// Rows of unit length, as cosines are taken of.
//
//   y = x/‖x‖,   dx = (dy − y·(y·dy))/‖x‖
//
// A row of zeros stays one, and its dx is zeros. Metered (kNorm) with n rows of d: forward n·(3d + 2)
// (square, sum, product; root, division), backward n·5d.
#pragma once

#include <span>

#include "longspan/base/view.h"

namespace longspan {

// y may be x. `inverse` receives 1/‖x‖ of each row.
void unit_rows(ConstMatrix x, Matrix y, std::span<float> inverse);
// dx may be dy.
void unit_rows_backward(ConstMatrix y, std::span<const float> inverse, ConstMatrix dy, Matrix dx);

// Σ x⊙y in double, in a fixed order.                              kAdd, 2 per element
double sum_of_products(ConstMatrix x, ConstMatrix y);

}  // namespace longspan
