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
#include <string_view>

#include "longspan/base/random.h"
#include "longspan/base/view.h"

namespace longspan {

enum class Orthogonal : std::uint8_t { kNone, kQr, kHadamard, kGivens };
Orthogonal orthogonal_named(std::string_view name);  // none, qr, hadamard, givens

// Ω of the kinds that are a matrix.
void draw_features(Orthogonal kind, bool fixed_norms, RandomKey key, Matrix omega);
// Ω of kHadamard: signs [sign_rows, p], norms [rows]; p = 2^⌈log₂ d⌉.
void draw_signs(RandomKey key, Matrix signs);
void draw_norms(bool fixed_norms, std::size_t d, RandomKey key, std::span<float> norms);

}  // namespace longspan
