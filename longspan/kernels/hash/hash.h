// Hashing by random projections: which vectors point the same way.
//
//   bucket of a round   argmax([x·R; −x·R])       R: d × b/2 Gaussian, b buckets (Andoni et al.,
//   2015) bits                [p_k·x + c_k > 0]         one hyperplane per bit
//
// Two unit vectors at angle θ agree in a bit with probability 1 − θ/π; their buckets agree the more
// often, the closer they are. All on the calling thread; 64 vectors lie side by side in the lanes,
// so that the largest projection is found without a horizontal step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "longspan/base/view.h"

namespace longspan {

// The buckets of a round. Many buckets are the product of a few factors, each with projections of
// its own: b = b₁·b₂ costs d·(b₁ + b₂)/2 instead of d·b₁·b₂/2. The first factor is the least
// significant.
struct LshCode {
  static constexpr std::size_t kMostFactors = 4;
  std::size_t rounds = 1;
  std::array<std::size_t, kMostFactors> factors{};  // even; zeros behind the last
  std::size_t buckets() const;                      // of one round
  std::size_t projections() const;                  // of one round: Σ factors/2
};

// Floats of scratch, aligned to 64 bytes, that hashing vectors of width d takes.
std::size_t lsh_scratch(std::size_t d, const LshCode& code);
std::size_t sign_scratch(std::size_t d, std::size_t bits);

// to[r·stride + i] = bucket of row i of x in round r. `rotations` is [d, rounds·projections], a
// round's factors side by side.
void lsh_buckets(ConstMatrix x, const LshCode& code, ConstMatrix rotations, std::int32_t* to,
                 std::size_t stride, float* scratch);

// Bit k of to[i] says on which side of plane k, p·x = c, x_i lies: planes is [bits, d + 1] with
// rows [p, c], bits ≤ 64.
void sign_bits(ConstMatrix x, ConstMatrix planes, std::uint64_t* to, float* scratch);

}  // namespace longspan
