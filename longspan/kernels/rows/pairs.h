// Two rows as one: what a classifier of pairs reads of them.
//
//   a = x_{2i},  b = x_{2i+1}
//   y_i = [a, b, a∘b, a − b]
//   dy_i = [g₁, g₂, g₃, g₄]:   da = g₁ + g₃∘b + g₄,   db = g₂ + g₃∘a − g₄
//
// Every function says in its last line what it reports.
#pragma once

#include "longspan/base/view.h"

namespace longspan {

// y [r, 4d] of x [2r, d].                              kAdd, 2 per element of a
void pair_rows(ConstMatrix x, Matrix y);
// dx is written, not added to.                         kAdd, 6 per element of a
void pair_rows_backward(ConstMatrix x, ConstMatrix dy, Matrix dx);

}  // namespace longspan
