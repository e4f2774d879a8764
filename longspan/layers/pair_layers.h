// What a head of pairs has between two pooled sequences and its scores: the two-tower head of the
// Long Range Arena (Tay et al., 2021, arXiv:2011.04006; the "NLI" interaction of its published
// code, after Mou et al., 2016, arXiv:1512.08422).
//
//   a, b = rows 2i and 2i + 1 of x       two sequences, both from one encoder
//   u    = [a, b, a∘b, a − b]            4d
//   h    = max(0, u·W₁ᵀ + b₁)            w, the width of the encoder's feed-forward
//   t    = max(0, h·W₂ᵀ + b₂)            w/2
//
// r pairs: r·(4·d·w + w·⌊w/2⌋) MACCs in each phase; FLOPs 2·r·d + 2·r·(w + ⌊w/2⌋) forward,
// 6·r·d + r·(w + ⌊w/2⌋) backward, r·(w + ⌊w/2⌋) update.
#pragma once

#include <algorithm>
#include <string>

#include "longspan/base/arena.h"
#include "longspan/layers/linear.h"

namespace longspan {

class PairLayers {
 public:
  struct Config {
    std::size_t d_model = 0;
    std::size_t width = 0;  // w
    float deviation = 0.02F;
  };
  struct Saved {
    ConstMatrix x;
    Matrix u;
    Matrix z_first;
    Matrix h;
    Matrix z_second;
    Matrix t;
  };

  PairLayers(Parameters& parameters, const std::string& name, const Config& config);

  // Of a w: columns of t.
  static std::size_t output_width(std::size_t width) { return std::max<std::size_t>(1, width / 2); }

  // Everything it writes is taken from the arena, kept or not.
  Saved forward(ConstMatrix x, bool saves, Arena& arena) const;
  // dx from dt, which it spoils. Adds to the gradients of the parameters.
  void backward(const Saved& saved, Matrix dt, Matrix dx, Arena& arena) const;

 private:
  Linear first_;
  Linear second_;
};

}  // namespace longspan
