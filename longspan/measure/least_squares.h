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
};

struct Fit {
  std::vector<double> coefficients;
  double error = 0.0;  // root mean square of (fitted − measured) / measured
};

// Least squares of the relative errors. Every point has the same number of x.
Fit fit_seconds(std::span<const TimedPoint> points);

double dot(std::span<const double> a, std::span<const double> b);

}  // namespace longspan
