// A product for every head, with a matrix of its own.
#pragma once

#include "longspan/base/view.h"

namespace longspan {

// y_h = x_h·w_h, or x_h·w_hᵀ, for every head h of x: one sequence of rows, beside whose heads those
// of the one w are. The bits do not depend on the number of threads.
//                                              heads·rows·(width of x)·(width of y) MACCs
void gemm_heads(ConstHeads x, ConstHeads w, bool transpose_w, Heads y);

}  // namespace longspan
