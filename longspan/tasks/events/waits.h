// The wait for the next event of a process, from the course of its intensity λ(s) after the last:
//
//   E[min(τ, h)] = ∫₀^h e^(−Λ(s)) ds,   Λ(s) = ∫₀^s λ
//
// up to a horizon h, since an intensity that dies away may bring no event at all. Where the process
// is that of the events, the gaps Λ(τ) are exponential of mean 1 (time rescaling).
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace longspan {

// Time is in mean gaps. Panels widen with s; in each Λ grows by Simpson's rule, and each of its
// halves has one rate.
template <class Rate>
double expected_wait(const Rate& rate, double horizon) {
  constexpr double kFirst = 0.02;
  constexpr double kWidens = 1.0 / 6.0;
  constexpr double kGone = 20.0;  // Λ behind which nothing is left
  double sum = 0.0;
  double passed = 0.0;  // Λ(s)
  double begin = rate(0.0);
  const double narrowest = std::min(kFirst, 0.1 / begin);
  for (double s = 0.0; s < horizon && passed < kGone;) {
    const double width = std::min(std::max(narrowest, kWidens * s), horizon - s);
    const double middle = rate(s + 0.5 * width);
    const double end = rate(s + width);
    const double whole = width / 6.0 * (begin + 4.0 * middle + end);
    const double half = std::clamp(width / 24.0 * (5.0 * begin + 8.0 * middle - end), 0.0, whole);
    for (const double grows : {half, whole - half}) {
      // ∫ e^(−x·grows) dx from 0 to 1
      const double mean = grows < 1e-9 ? 1.0 : -std::expm1(-grows) / grows;
      sum += 0.5 * width * std::exp(-passed) * mean;
      passed += grows;
    }
    s += width;
    begin = end;
  }
  return sum;
}

// How far a sample is from exponential of mean 1: Kolmogorov's and Smirnov's distance of the
// distributions, and the probability of one as large of a sample that is exponential (by its limit,
// with Stephens's correction).
struct KolmogorovSmirnov {
  double distance = 0.0;
  double p = 1.0;
};
KolmogorovSmirnov exponential_fit(std::vector<double> sample);

}  // namespace longspan
