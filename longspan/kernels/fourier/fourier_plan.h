// How a discrete Fourier transform of one length is done, with its constants.
//
//   X[k] = Σ_j x[j]·ω_N^{jk},   ω_N = e^{−2πi/N},   N = r₁·r₂·…
//
// Stage by stage (Stockham): with s the product of the radices before and m = N/(s·r),
//
//   to[q + s·(r·p + k)] = ω_{N/s}^{pk}·Σ_j ω_r^{jk}·from[q + s·(p + m·j)]     q < s, p < m, k < r
//
// so that the last stage leaves the spectrum in its natural order. A length with a large prime
// factor is a convolution with a chirp (Bluestein), of a length M ≥ 2N − 1 without such factors:
//
//   X[k] = c[k]·Σ_j (x[j]·c[j])·c̄[k − j],   c[j] = e^{−πi·j²/N}
//
// FLOPs: a butterfly of 2 costs 4, of 4 costs 16, of an odd r = 2h + 1 costs 8h² + 8h, N/r of them
// in a stage; a rotation costs 6, of which a stage has (r − 1)·(N/r − s), those of p = 0 being none.
// By chirp: two transforms of M, 6·M in between, 12·N before and after.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace longspan {

// The radices of a length, or the length M of its convolution; needs no memory but its own.
struct FourierFactors {
  // Butterflies of larger primes cost more than the convolution.
  static constexpr std::size_t kLargestRadix = 61;

  std::array<std::size_t, 64> radices{};  // 4, 2, then odd primes
  std::size_t stages = 0;
  std::size_t convolution = 0;  // > 0: by chirp

  explicit FourierFactors(std::size_t length);
};
std::uint64_t fourier_flops(std::size_t length);

struct FourierStage {
  std::size_t radix = 1;
  std::size_t apart = 1;   // s
  std::size_t blocks = 1;  // m
  // ω_{N/s}^{pk} for p < m and 0 < k < r, cosine and sine one after the other.
  std::vector<float> rotations;
  // cos(2πj/r) and sin(2πj/r) for j < r, of odd radices.
  std::vector<float> cosines;
  std::vector<float> sines;
};

class FourierPlan {
 public:
  explicit FourierPlan(std::size_t length);

  std::size_t length() const { return length_; }
  // Rows that a transform works on: the length, or that of the convolution.
  static std::size_t rows(std::size_t length);
  bool by_chirp() const { return !chirp_.empty(); }
  // Of the length, or of the convolution.
  std::span<const FourierStage> stages() const { return stages_; }
  // c[j] and Σ_j c̄[j]·ω_M^{jk}/M, cosine and sine one after the other.
  std::span<const float> chirp() const { return chirp_; }
  std::span<const float> spectrum() const { return spectrum_; }

 private:
  std::size_t length_;
  std::vector<FourierStage> stages_;
  std::vector<float> chirp_;
  std::vector<float> spectrum_;
};

// Made when it is first asked for and kept as long as the program runs; any thread may ask.
const FourierPlan& fourier_plan(std::size_t length);

}  // namespace longspan
