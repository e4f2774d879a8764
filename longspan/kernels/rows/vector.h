// Small vector work: sums, copies, dropout, rotary positions, tables, optimiser steps.
//
// Every function says in its last line what it reports to the meter. The arithmetic does not depend
// on the number of threads: sums are taken over pieces of fixed size, in order.
#pragma once

#include <cstdint>
#include <span>

#include "longspan/base/random.h"
#include "longspan/base/view.h"

namespace longspan {

void fill(Matrix y, float value);
void copy(ConstMatrix x, Matrix y);
// y = a + b; y may be a or b.                                     kAdd, 1 per element
void add(ConstMatrix a, ConstMatrix b, Matrix y);
// y = a − b; y may be a or b.                                     kAdd, 1 per element
void subtract(ConstMatrix a, ConstMatrix b, Matrix y);
// y = α·(a − b); y may be a or b. α is folded in.               kAdd, 1 per element
void difference(float alpha, ConstMatrix a, ConstMatrix b, Matrix y);
// y += α·x.                                                       kAdd, 2 per element (1 if α = 1)
void axpy(float alpha, ConstMatrix x, Matrix y);
// y += x of one row, on the calling thread. Not metered.
inline void add_row(std::span<const float> x, float* y) {
#pragma omp simd
  for (std::size_t i = 0; i < x.size(); ++i) y[i] += x[i];
}
// The rows [begin, end) of x, next to each other, on the calling thread. Not metered.
void copy_rows(ConstMatrix x, std::size_t begin, std::size_t end, float* to);
// y *= α.                                                         kAdd, 1 per element
void scale(float alpha, Matrix y);
// sum[j] += Σ_i x[i, j]: a bias' gradient.                        kAdd, 1 per element
void add_column_sums(ConstMatrix x, float* sum);
// Σ x², in double, in a fixed order.                              kOptimizer, 2 per element
double sum_of_squares(std::span<const float> x);
// Whether every element is finite. Not metered.
bool all_finite(std::span<const float> x);

// y = x⊙mask/(1 − rate), mask of plane 0, element (row, col); y may be x. The same call on the
// gradient is its backward. Rate 0 copies and reports nothing.             kDropout, 1 per element
void dropout(const Dropout& drop, ConstMatrix x, Matrix y);

// Rotary positions (Su et al., 2021) on each head's d columns, d even, position p = row's position:
//   (a, b) → (a·cos pθ_i − b·sin pθ_i,  a·sin pθ_i + b·cos pθ_i),  θ_i = base^(−2i/d)
// pairs are (2i, 2i+1) if interleaved, else (i, i + d/2).
struct Rotary {
  float base = 10000.0F;
  bool interleaved = true;
};
// cos and sin, each [positions, d/2].
void rotary_table(const Rotary& rotary, std::size_t positions, std::size_t d, float* cosines,
                  float* sines);
// The same of any frequencies θ_i, times an amplitude.
void rotary_table(std::span<const double> frequencies, double amplitude, std::size_t positions,
                  float* cosines, float* sines);
// Rotates x in place; row n of every (batch, head) has position `first + n`; `inverse` rotates
// back, which is the gradient.                                          kRotary, 3 per element
void rotate(const Rotary& rotary, ConstMatrix cosines, ConstMatrix sines, std::size_t first,
            Heads x, bool inverse);

// y[i] = table[ids[i]].                                           kGather, 0 FLOPs
void gather_rows(const WeightMatrix& table, std::span<const std::int32_t> ids, Matrix y);
// table[ids[i]] += x[i], in the order of i for each row of the table. kGather, 1 per element of x
void scatter_add_rows(ConstMatrix x, std::span<const std::int32_t> ids, Matrix table);

// Optimiser steps on flat blocks. g is scaled by `gradient_scale` (clipping) on the way in.
struct StepOptions {
  float learning_rate = 1e-3F;
  float gradient_scale = 1.0F;
  float weight_decay = 0.0F;  // sgd, momentum, Adam: added to the gradient; AdamW: decoupled
  float momentum = 0.9F;
  double beta1 = 0.9;  // double: 1 − 0.999F would be off by 2e-5
  double beta2 = 0.999;
  float epsilon = 1e-8F;
  std::uint64_t step = 1;  // counts from 1, for Adam's bias correction
  bool decoupled = false;  // AdamW
};
// The FLOPs per element are for the step alone; weight decay adds 2, and `gradient_scale`, folded
// into the load, none.
// w −= η·g.                                                       kOptimizer, 2 per element
void sgd_step(const StepOptions& o, std::span<const float> g, std::span<float> w);
// v = μ·v + g; w −= η·v.                                          kOptimizer, 4 per element
void momentum_step(const StepOptions& o, std::span<const float> g, std::span<float> v,
                   std::span<float> w);
// m = β₁m + (1−β₁)g; v = β₂v + (1−β₂)g²; w −= η·m̂/(√v̂ + ε).      kOptimizer, 12 per element
void adam_step(const StepOptions& o, std::span<const float> g, std::span<float> m,
               std::span<float> v, std::span<float> w);

}  // namespace longspan
