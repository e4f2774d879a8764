// Positions.
//
//   sinusoidal  P[p, 2i] = sin(p·10000^(−2i/d)),  P[p, 2i+1] = cos(p·10000^(−2i/d))
//   learned     P is a parameter
//   axial       P[p] = [R[p / c] | C[p mod c]], R and C parameters, c columns (Kitaev et al., 2020)
//   rotary      q and k are rotated instead (kernels/rows/vector.h)
//   temporal    as sinusoidal, of the time t at which a token happened instead of its place p
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "longspan/base/cost.h"
#include "longspan/base/model_kind.h"
#include "longspan/base/view.h"
#include "longspan/kernels/rows/vector.h"

namespace longspan {

// The fixed table [length, d].
std::vector<float> sinusoidal_table(std::size_t length, std::size_t d);

// The angles of rotary positions, shared by all layers of a model. They are computed by allocate().
class RotaryTable {
 public:
  RotaryTable(const Rotary& rotary, std::size_t positions, std::size_t d_head);
  void allocate();
  // Rotates each head's rows, row n by position first + n; `inverse` is the gradient.
  void apply(Heads x, std::size_t first, bool inverse) const;

 private:
  Rotary rotary_;
  std::size_t positions_;
  std::size_t d_head_;
  std::vector<float> cosines_;
  std::vector<float> sines_;
};

}  // namespace longspan
