// Fits seconds = Σ_j coefficient_j · x_j with coefficients that are not negative, so that a fit can
// be extrapolated: more work never takes less time.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace longspan {

struct TimedPoint {
  std::vector<double> x;
  double seconds = 0.0;
  // What an error is compared with, where that is more than `seconds`: of what they are part of.
  double whole = 0.0;

  double scale() const { return whole > 0.0 ? whole : seconds; }
};

struct Fit {
  std::vector<double> coefficients;
  double error = 0.0;  // root mean square of (fitted − measured) / scale
};

// Least squares of the relative errors. Every point has the same number of x.
Fit fit_seconds(std::span<const TimedPoint> points);

double dot(std::span<const double> a, std::span<const double> b);

}  // namespace longspan
