// The likelihood of events of K types in continuous time. A row of scores says how the intensities
// λ_k run from one event until the next; s is the time since:
//
//   affine       λ_k(s) = softplus(a_k + b_k·s)                         scores a_1 … a_K, b_1 … b_K
//   exponential  λ_k(s) = softplus(c_k + (a_k − c_k)·e^(−δ_k·s)),  δ_k = softplus(r_k)
//                                                                       a …, c …, r …
//   L = −log λ_y(τ) + Σ_k ∫₀^τ λ_k(s) ds
//
// for an event of type y after the gap τ; where the window ends without one there is no first
// term. Between events the affine argument is a line, so that its integral has a closed form,
// (F(a + bτ) − F(a))/b with F(x) = −Li₂(−eˣ), the integral of softplus; near b = 0, and of the
// exponential, Gauss's quadrature is as exact as the arithmetic.
//
// Counted: 20 FLOPs (kSoftmax) per score, 30 with the gradient.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "longspan/base/view.h"

namespace longspan {

enum class Decay : std::uint8_t { kAffine, kExponential };
// Scores of a type.
constexpr std::size_t scores_per_type(Decay decay) { return decay == Decay::kAffine ? 2 : 3; }

inline constexpr std::int32_t kIgnoredRow = -1;
inline constexpr std::int32_t kNoEvent = -2;  // until the end of the window

struct EventRows {
  std::span<const std::int32_t> types;  // 0 … K−1, or one of the two below
  std::span<const float> gaps;          // τ ≥ 0
};

struct PointProcessSum {
  double loss = 0.0;
  std::size_t events = 0;
  std::size_t correct = 0;  // whose type had the highest intensity
};

// The sum only; scores are kept.
PointProcessSum point_process(Decay decay, ConstMatrix scores, const EventRows& rows);
// In place: scores become the gradient of scale·loss.
PointProcessSum point_process_gradient(Decay decay, Matrix scores, const EventRows& rows,
                                       float scale);

// ∫ softplus from −∞ to x, −Li₂(−eˣ).
double integrated_softplus(double x);
// λ_k(s) and its integral from 0 to s, of one row.
struct Intensity {
  double rate = 0.0;
  double integral = 0.0;
};
Intensity intensity(Decay decay, const float* scores, std::size_t types, std::size_t k, double s);

}  // namespace longspan
