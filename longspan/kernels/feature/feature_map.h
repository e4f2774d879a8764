// Feature maps φ: R^d → R^M of attention by features, and what they cost.
//
//   x' = scale·x,  u = Ω·x'  (or u = x' without a projection; [u, −u] if mirrored)
//
//   kElu      φ = elu(u) + 1                                     (Katharopoulos et al., 2020)
//   kRelu     φ = relu(u) + ε                                    (Choromanski et al., 2021)
//   kExp      φ = exp(u − ‖x'‖²/2)                               (the same; the norm is optional)
//   kShifted  φ = exp(u − ‖x'‖²/2 − shift) + ε, the shift a constant: the convention of public
//             implementations, for comparison with them
//
// kExp is kept as a logarithm until it can be taken relative to a running maximum of its feature,
// so it neither overflows nor needs an ε; the other kinds are plain numbers.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "longspan/base/integers.h"
#include "longspan/base/meter.h"
#include "longspan/base/view.h"

namespace longspan {

enum class FeatureKind : std::uint8_t { kElu, kRelu, kExp, kShifted };

// Ω [rows, d]: a matrix, or the first rows of stacked blocks
//   diag(norm)·H·D₃·H·D₂·H·D₁,  H the p×p Walsh–Hadamard matrix, D diagonal ±1, p = 2^⌈log₂ d⌉,
// applied in O(p log p). Four blocks share H·D₂·H·D₁, a rotation of all tokens that leaves their
// dot products as they were; D₃ is each block's own. `norm` includes the factor that makes H
// orthogonal.
struct FeatureProjection {
  std::size_t rows = 0;  // 0: there is none
  bool hadamard = false;
  ConstMatrix dense;             // [rows, d]
  const float* signs = nullptr;  // [sign_rows][p]: D₁ and D₂ by four blocks, then D₃ by block
  const float* norms = nullptr;  // [rows]

  static std::size_t padded(std::size_t d) { return std::bit_ceil(d); }
  std::size_t blocks(std::size_t d) const { return (rows + padded(d) - 1) / padded(d); }
  static constexpr std::size_t kSharing = 4;
  std::size_t rotations(std::size_t d) const { return divide_up(blocks(d), kSharing); }
  std::size_t sign_rows(std::size_t d) const { return 2 * rotations(d) + blocks(d); }
};

struct FeatureMap {
  FeatureKind kind = FeatureKind::kElu;
  FeatureProjection projection;
  bool mirrored = false;
  bool norm = false;  // kExp: subtract ‖x'‖²/2
  float scale = 1.0F;
  float epsilon = 0.0F;              // of φ
  float sum_epsilon = 0.0F;          // added to every feature of z, in causal sums
  float denominator_epsilon = 0.0F;  // added to φ(q)·z
  // kExp: every feature of the keys is divided by its sum over the sequence, every query by its sum
  // over the features, and y multiplied by `gain` (efficient attention, Shen et al., 2018).
  bool over_sequence = false;
  float gain = 1.0F;

  std::size_t features(std::size_t d) const {
    if (projection.rows == 0) return d;
    return mirrored ? 2 * projection.rows : projection.rows;
  }
  bool running() const { return kind == FeatureKind::kExp; }
  // φ acts on each element alone, so that tokens need not be turned into the lanes.
  bool by_rows() const {
    return projection.rows == 0 && (kind == FeatureKind::kElu || kind == FeatureKind::kRelu);
  }
  bool subtracts_norm() const { return kind == FeatureKind::kShifted || norm; }

  // Of u from one token, and of its gradient back to the token.
  Work projection_work(std::size_t d) const;
  // Of φ from u for one query or key, its norm and running maximum included.
  Work query_work(std::size_t d) const;
  Work key_work(std::size_t d) const;
  // Of ∂L/∂u from ∂L/∂φ for one token, and what the norm adds to ∂L/∂x.
  Work derivative_work(std::size_t d, bool key) const;
};

}  // namespace longspan
