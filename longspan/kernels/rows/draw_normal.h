// Normal numbers, many at once: the weights of a fresh model.
//
// Box and Muller (1958) on counters of Philox: {b, b >> 32, 3, 0} of the stream has words r₀ … r₃,
//
//   z_4b     = ρ(r₀)·cos τ(r₁)     z_4b+1 = ρ(r₀)·sin τ(r₁)     ρ(r) = √(−2 ln((r + ½)/2³²))
//   z_4b+2   = ρ(r₂)·cos τ(r₃)     z_4b+3 = ρ(r₂)·sin τ(r₃)     τ(r) = 2π·r/2³²
//
// so that |z| < 6.77. The bits depend neither on the number of threads nor on the instruction set:
// products and sums are rounded one after another, and the functions are polynomials. They are
// right to 7·2⁻²⁴ of a number, however small it is.
#pragma once

#include <span>

#include "longspan/base/random.h"

namespace longspan {

// to[i] = deviation·z_i of the stream `key`; not the numbers of random_normal. Not metered.
void draw_normal(RandomKey key, float deviation, std::span<float> to);

}  // namespace longspan
