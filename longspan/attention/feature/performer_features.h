// Random features of the Performer: Ω [rows, d], in blocks of mutually orthogonal rows.
//
//   kQr        rows of a Haar-distributed orthogonal matrix (Gram–Schmidt of a Gaussian one)
//   kHadamard  rows of H·D₃·H·D₂·H·D₁, kept as signs and applied in O(d log d)
//   kGivens    rows of a product of d·⌈log₂ d⌉ random Givens rotations
//   kNone      independent Gaussian rows
//
// Row norms are those of d Gaussians, χ_d, which leaves the kernel's estimate unbiased, or √d,
// which biases it and lowers its variance. The last block is cut off.
#pragma once

#include <cstdint>
#include <span>

#include "longspan/base/choice.h"
#include "longspan/base/random.h"
#include "longspan/base/view.h"

namespace longspan {

enum class Orthogonal : std::uint8_t { kNone, kQr, kHadamard, kGivens };
constexpr Names<4> names_of(Orthogonal /*kind*/) {
  return {"performer", "kind of orthogonal features", {"none", "qr", "hadamard", "givens"}};
}

enum class FeatureNorms : std::uint8_t { kChi, kFixed };
constexpr Names<2> names_of(FeatureNorms /*kind*/) {
  return {"performer", "norms", {"chi", "fixed"}};
}

// Ω of the kinds that are a matrix.
void draw_features(Orthogonal kind, FeatureNorms norms, RandomKey key, Matrix omega);
// Ω of kHadamard: signs [sign_rows, p], norms [rows]; p = 2^⌈log₂ d⌉.
void draw_signs(RandomKey key, Matrix signs);
void draw_norms(FeatureNorms norms, std::size_t d, RandomKey key, std::span<float> lengths);

}  // namespace longspan
