// Intensities of events of K types. A row of scores says how they run from one event until the
// next; s is the time since:
//
//   affine       λ_k(s) = softplus(a_k + b_k·s)                         scores a_1 … a_K, b_1 … b_K
//   exponential  λ_k(s) = softplus(c_k + (a_k − c_k)·e^(−δ_k·s)),  δ_k = softplus(r_k)
//                                                                       a …, c …, r …
//
// Each is monotonous in s. The integral of the affine one has a closed form,
// (F(a + bτ) − F(a))/b with F(x) = −Li₂(−eˣ), the integral of softplus; near b = 0, and of the
// exponential, Gauss's quadrature is as exact as the arithmetic. Both can also be integrated as
// others do it: by points that are as many whatever the intensity, laid or drawn.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "longspan/base/choice.h"

namespace longspan {

enum class Decay : std::uint8_t { kAffine, kExponential };
constexpr Names<2> names_of(Decay /*kind*/) {
  return {"events", "decay", {"affine", "exponential"}};
}
// Scores of a type.
constexpr std::size_t scores_per_type(Decay decay) { return decay == Decay::kAffine ? 2 : 3; }

enum class Integration : std::uint8_t { kExact, kQuadrature, kMonteCarlo };
constexpr Names<3> names_of(Integration /*kind*/) {
  return {"events", "integration", {"exact", "quadrature", "monte-carlo"}};
}

// What a loss of events is called (layers/event_loss.h).
constexpr std::string_view event_loss_name(Decay decay, Integration integration) {
  constexpr std::array<std::array<std::string_view, 3>, 2> kNames = {
      {{"events-affine", "events-affine-quadrature", "events-affine-monte-carlo"},
       {"events-exponential", "events-exponential-quadrature", "events-exponential-monte-carlo"}}};
  return kNames[static_cast<std::size_t>(decay)][static_cast<std::size_t>(integration)];
}

// In the place of the type of a next event: none until the end of the window.
inline constexpr std::int32_t kNoEvent = -2;

// ∫ softplus from −∞ to x, −Li₂(−eˣ).
double integrated_softplus(double x);

// A type at the time s: the argument of softplus and the integral of λ from 0 to s, with the
// derivatives of both in the scores of the type.
struct IntensityTerm {
  double argument = 0.0;
  double integral = 0.0;
  std::array<double, 3> d_argument{};
  std::array<double, 3> d_integral{};

  double log_rate() const;
  double d_log_rate() const;  // in the argument
};

// Of one row of scores.
class Intensities {
 public:
  Intensities(Decay decay, std::span<const float> scores)
      : decay_(decay), types_(scores.size() / scores_per_type(decay)), scores_(scores) {}

  std::size_t types() const { return types_; }
  double rate(std::size_t type, double s) const;
  // Σ_k λ_k(s) and its integral from 0 to s.
  double total(double s) const;
  double integral(double s) const;
  // Points of Monte Carlo are a function of the scores and of s.
  IntensityTerm term(std::size_t type, double s,
                     Integration integration = Integration::kExact) const;

 private:
  Decay decay_;
  std::size_t types_;
  std::span<const float> scores_;
};

}  // namespace longspan
