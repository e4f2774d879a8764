// Matrix products. All of BLAS is behind this header.
//
// B is packed into panels, by all threads together, and the output cut into tiles; small products
// go to oneDNN. How the work is cut depends on the shape alone, so the bits of the result do not
// depend on the number of threads, which a library that divides the inner dimension among its
// threads cannot promise. The panels live in memory of the calling thread that is kept: at most 8
// MiB, of which nothing is asked for after the first step.
//
// Metered: m·n·k MACCs; a bias is m·n FLOPs (kMatmul), an activation as in activation.h.
#pragma once

#include <cstdint>
#include <span>

#include "longspan/base/view.h"
#include "longspan/kernels/rows/activation.h"

namespace longspan {

struct GemmOptions {
  bool transpose_a = false;  // A is stored k×m
  bool transpose_b = false;  // B is stored n×k
  bool add = false;          // C += A·B instead of C = A·B
  float alpha = 1.0F;        // scales the product; not metered: it is folded into the kernel
};

// What products take beside their operands, once and for all: the threads are started, and oneDNN
// compiles its kernels, which it does not survive when the machine refuses it memory. Throws
// SystemError instead, and happens by itself if nobody asks; who asks early does not find out in the
// midst of a run.
void prepare_products();

// C = α·op(A)·op(B), or C += α·op(A)·op(B).
void gemm(ConstMatrix a, ConstMatrix b, Matrix c, GemmOptions options = {});

// C = α·Aᵀ·B, or +=, where rows are the tokens of equally long sequences, one behind the other, of
// which the first lengths[i] are real; all of them if `lengths` is empty. The others, padding, are
// not read: a factor of 0 would not silence a NaN. Metered as the product of all rows.
void gemm_real_rows(ConstMatrix a, ConstMatrix b, Matrix c, std::span<const std::int32_t> lengths,
                    GemmOptions options);

// gemm on the calling thread and without a report to the meter, for callers that divide and
// count the work themselves (a head of attention, a tile).
void gemm_serial(ConstMatrix a, ConstMatrix b, Matrix c, GemmOptions options = {});

// y = x·Wᵀ + b; W is [out, in], packed or not; `bias` may be null.
void linear_forward(ConstMatrix x, WeightMatrix w, const float* bias, Matrix y);

// z = x·Wᵀ + b and h = f(z), each tile activated while it is still in cache. z may be empty (null
// data) when nobody needs it, and h may be z's own memory then.
void linear_activation_forward(ConstMatrix x, WeightMatrix w, const float* bias, Activation f,
                               Matrix z, Matrix h);

}  // namespace longspan
