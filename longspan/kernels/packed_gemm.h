// A product on one thread whose right side is packed first. Internal to the kernels.
#pragma once

#include "longspan/base/view.h"
#include "longspan/kernels/gemm.h"

namespace longspan::detail {

// C = α·op(A)·B, or C += α·op(A)·B; B is stored k×n.
void packed_gemm(ConstMatrix a, ConstMatrix b, Matrix c, const GemmOptions& options);

}  // namespace longspan::detail
