// Weights in the layout that the micro-kernels read, in the memory that they had.
//
// W [out, in] is cut into groups of as many rows as the micro-kernel of this CPU computes columns. A
// group is w·in neighbouring floats and is transposed where it stands, panel[p][j] = W[i + j, p]; the
// last one may have fewer rows. So packing takes no memory but a group's on each thread, a product reads the weights once, in
// order, and every sum runs along `in` whatever the number of rows of x.
#pragma once

#include "longspan/base/view.h"

namespace longspan {

// W must be contiguous. On the CPU that packed alone, and once.
void pack_weights(Matrix w);
void unpack_weights(Matrix w);

namespace detail {

// y = x·(rows col, col + 1, … of W)ᵀ for packed W; `col` begins a group of any CPU.
void multiply_weights(ConstMatrix x, ConstMatrix w, std::size_t col, Matrix y);

// to = row `row` of W, which is packed.
void copy_packed_row(ConstMatrix w, std::size_t row, float* to);

}  // namespace detail
}  // namespace longspan
