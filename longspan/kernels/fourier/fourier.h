// Fourier mixing:  y = Re(F_n·x·F_d) of each sequence x [n, d], F_N[k, j] = e^{−2πi·jk/N}
//
//   y[k, l] = Σ_{m,j} x[m, j]·cos(2π(mk/n + jl/d))
//
// The cosine does not change when (m, j) and (k, l) change places, so the map is its own transpose:
// the gradient of x is the same mixing of the gradient of y.
//
// Nor does it change when both signs of (m, j), or of (k, l), change. So only half of what goes in
// counts, half of what comes out is told apart, and both directions are real. With indices modulo n
// and d, the Hartley transform H(v)[k] = Σ_j v[j]·(cos + sin)(2πjk/N) and
//
//   t[m]    = H of the row ½(x[m, j] + x[−m, −j])        m ≤ n/2
//   c[m, l] = t[m, −l],   c[−m, l] = t[m, l]             l ≤ d/2
//   y[·, l] = H of the column c[·, l],   y[−k, −l] = y[k, l]
//
// Two real sequences are the parts of one complex one, z = a + ib with spectrum Z, from which
//
//   2·H(a)[±k] = (Re Z[k] + Re Z[−k]) ∓ (Im Z[k] − Im Z[−k])
//   2·H(b)[±k] = (Im Z[k] + Im Z[−k]) ∓ (Re Z[−k] − Re Z[k])
//
// FLOPs of a sequence, with r = ⌊n/2⌋ + 1, h = ⌊d/2⌋ + 1 and F of fourier_plan.h:
//   2·r·d + ⌈r/2⌉·(F(d) + 8·h) + ⌈h/2⌉·(F(n) + 8·r)
#pragma once

#include <cstddef>

#include "longspan/base/arena.h"
#include "longspan/base/view.h"
#include "longspan/base/work.h"

namespace longspan {

// Of `batch` sequences one after the other; y may be x.                                    kFourier
void fourier_mix(std::size_t batch, ConstMatrix x, Matrix y, Arena& arena);

Work fourier_work(std::size_t batch, std::size_t n, std::size_t d);

}  // namespace longspan
