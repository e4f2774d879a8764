// The micro-kernels' side of products whose right side is packed first: copied into panels that are
// read in order. Read in place, rows a power of two apart would fall on the same few sets of the
// cache. Internal to the kernels.
#pragma once

#include <cstddef>

#include "longspan/base/view.h"
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/kernels/gemm/gemm_tiles.h"

namespace longspan::detail {

// depth × cols of α·op(B), in groups of w columns, as many as the micro-kernel of this CPU reads at
// a time: panels[j / w][p][j % w]. w divides kPanelCols; the last group is filled up with zeros.
struct PackedBlock {
  float* panels;
  std::size_t depth;
  std::size_t cols;
};

// What the rows first … first + count − 1 of B, as stored, are of the block: rows of op(B), or
// columns if it is transposed, whose `first` then starts a panel.
void pack_rows_of(ConstMatrix b, const GemmOptions& options, std::size_t first, std::size_t count,
                  const PackedBlock& block);

// C = or += op(A)·(columns col … of the block); `col` starts a panel.
void multiply_packed(ConstMatrix a, bool transpose_a, const PackedBlock& block, std::size_t col,
                     bool add, Matrix c);

}  // namespace longspan::detail
