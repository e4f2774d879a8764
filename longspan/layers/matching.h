// Matching: which of B vectors a belongs to which of B vectors b, pairs being rows of one number
// (Radford et al., 2021, arXiv:2103.00020).
//
//   S = e^s·â·b̂ᵀ,  â = a/‖a‖, b̂ = b/‖b‖          s learned
//   L = ½·Σ_i (−log softmax(S_i)[i] − log softmax(Sᵀ_i)[i])
//
// whose mean over the B pairs is the loss. Backward, with R and C the gradients of the two
// cross-entropies in S and Sᵀ:
//
//   dâ = e^s·(R + Cᵀ)·b̂,   db̂ = e^s·(Rᵀ + C)·â,   ds = Σ dâ⊙â
//
// B pairs of width d: MACCs 2·B²·d forward, 4·B²·d backward; FLOPs: lengths 2·B·(3d + 2) forward
// and 10·B·d backward, softmax 10·B² forward and 2·B backward, and 2·B·d for ds.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "longspan/base/arena.h"
#include "longspan/base/parameter.h"
#include "longspan/base/view.h"
#include "longspan/layers/loss.h"

namespace longspan {

class Matching {
 public:
  static constexpr std::string_view kMeter = "matching";

  struct Saved {
    Matrix a, b;                      // of unit length
    std::span<float> of_a, of_b;      // inverse lengths
    Matrix a_to_b, b_to_a;            // S and Sᵀ; then R and C
    std::span<std::int32_t> partner;  // 0, 1, 2, …
  };

  Matching(Parameters& parameters, const std::string& name, float initial);

  Parameter& log_scale() const { return *scale_; }
  void initialize() const;
  // â, b̂ and S, in memory of the arena.
  Saved compare(ConstMatrix a, ConstMatrix b, Arena& arena) const;
  // Of S alone; the scores are kept.
  LossSum measure(const Saved& saved) const;
  // scale·Σ L: R and C take the place of the scores.
  LossSum predict(const Saved& saved, float scale) const;
  // Sets da and db, and adds to the gradient of s.
  void backward(const Saved& saved, Matrix da, Matrix db) const;

 private:
  float factor() const;

  Parameter* scale_;
  float initial_;
};

}  // namespace longspan
