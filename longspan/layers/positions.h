// Positions.
//
//   sinusoidal  P[p, 2i] = sin(p·10000^(−2i/d)),  P[p, 2i+1] = cos(p·10000^(−2i/d))
//               halves: the sines of all i stand before the cosines
//   learned     P is a parameter
//   axial       P[p] = [R[p / c] | C[p mod c]], R and C parameters, c columns (Kitaev et al., 2020)
//   rotary      q and k are rotated instead (kernels/rows/vector.h)
//   temporal    as sinusoidal, of the time t at which a token happened instead of its place p
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "longspan/base/cost.h"
#include "longspan/base/model_kind.h"
#include "longspan/base/view.h"
#include "longspan/kernels/rows/vector.h"
#include "longspan/layers/rotary.h"

namespace longspan {

// The fixed table [length, d] of one of the sinusoidal kinds.
std::vector<float> sinusoidal_table(PositionKind kind, std::size_t length, std::size_t d);

// The cosines and sines of rotary positions, shared by layers of a model. They are computed by
// allocate().
class RotaryTable : public std::enable_shared_from_this<RotaryTable> {
 public:
  RotaryTable(const RotaryConfig& config, std::size_t positions, std::size_t d_head);
  void allocate();
  // Rotates each head's rows, row n by position first + n; `inverse` is the gradient.
  void apply(Heads x, std::size_t first, bool inverse) const;

  // The same for heads of another width, which layers share too; it is computed with this one.
  std::shared_ptr<const RotaryTable> of_heads(std::size_t d_head) const;

  // Channels of a head that turn.
  std::size_t width() const { return config_.width == 0 ? d_head_ : config_.width; }

 private:
  struct Waves {
    std::vector<float> cosines;
    std::vector<float> sines;
  };
  // Whether positions up to `end` need longrope's second set.
  bool extends(std::size_t end) const {
    return config_.scaling == RotaryScaling::kLongRope && end > config_.original;
  }

  RotaryConfig config_;
  std::size_t positions_;
  std::size_t d_head_;
  Waves waves_;
  Waves extended_;
  mutable std::vector<std::shared_ptr<RotaryTable>> others_;  // as layers are made
};

}  // namespace longspan
