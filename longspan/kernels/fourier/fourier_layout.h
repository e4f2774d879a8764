// How sequences that are transformed together lie in memory, the same for every instruction set.
// Internal to the kernels.
#pragma once

#include <algorithm>
#include <cstddef>

#include "longspan/base/integers.h"
#include "longspan/base/view.h"
#include "longspan/kernels/fourier/fourier_plan.h"
#include "longspan/kernels/tiled/tile_layout.h"

namespace longspan {

// Complex sequences side by side: real parts, then imaginary parts.
inline constexpr std::size_t kFourierLanes = kTileUnit;
inline constexpr std::size_t kFourierPitch = 2 * kFourierLanes;

// The numbers 0 … N/2, which stand for themselves and their negatives modulo N.
constexpr std::size_t fourier_half(std::size_t length) { return length / 2 + 1; }

// Floats of one of the two rooms of a transform: two halves are one or two more than the whole.
inline std::size_t fourier_room(std::size_t length) {
  return std::max(FourierPlan::rows(length), 2 * fourier_half(length)) * kFourierPitch;
}

// Real sequences [first, first + count) of a block; the first `reals` of them are real parts.
struct FourierBlock {
  std::size_t first;
  std::size_t count;
  std::size_t reals;

  FourierBlock(std::size_t index, std::size_t total)
      : first(index * kFourierPitch),
        count(std::min(kFourierPitch, total - first)),
        reals((count + 1) / 2) {}
  static constexpr std::size_t blocks(std::size_t total) { return divide_up(total, kFourierPitch); }
};

// One sequence: x and y [n, d], and t between them for the columns l ≤ d/2, [n/2 + 1, d/2 + 1].
struct FourierMixing {
  const FourierPlan* across;  // a row, d
  const FourierPlan* along;   // a column, n
  ConstMatrix x;
  Matrix t;         // t[m, l]
  Matrix mirrored;  // t[m, −l]
  Matrix y;
};

}  // namespace longspan
