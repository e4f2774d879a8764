// A short causal convolution of each channel along its sequence:
//
//   y_t[c]  = b[c] + Σ_{i<w} W[i, c]·x_{t−w+1+i}[c]          the last tap is of the token itself
//   dx_t[c] = Σ_{i<w} W[i, c]·dy_{t+w−1−i}[c]
//   dW[i,c] += Σ_t dy_t[c]·x_{t−w+1+i}[c],   db[c] += Σ_t dy_t[c]
//
// Before the first token stand zeros, or the w−1 rows that came before. Padding gives zeros and
// reaches nothing. R real rows of d channels: MACCs w·R·d in each of the three, and of the bias R·d
// of kAdd forward and in the update.
#pragma once

#include <cstddef>

#include "longspan/base/view.h"
#include "longspan/kernels/rows/sequence.h"

namespace longspan {

inline constexpr std::size_t kMostTaps = 16;

struct Convolution {
  Sequences sequences;
  ConstMatrix taps;             // [w, d]
  const float* bias = nullptr;  // [d]; null: none
  ConstMatrix before = {};      // [batch·(w−1), d]; empty: zeros
};

void convolve(const Convolution& convolution, ConstMatrix x, Matrix y);
void convolve_backward(const Convolution& convolution, ConstMatrix dy, Matrix dx);
void convolve_update(const Convolution& convolution, ConstMatrix x, ConstMatrix dy, Matrix dtaps,
                     float* dbias);

// before = the last w−1 rows of (before, x) of each sequence.                            nothing
void keep_last_rows(std::size_t length, ConstMatrix x, Matrix before);

}  // namespace longspan
