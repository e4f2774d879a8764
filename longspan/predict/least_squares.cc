#include "longspan/predict/least_squares.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "longspan/base/error.h"

namespace longspan {

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Coordinate descent on ½·Σ (A·c − t)², where A's rows and t are divided by the scale of their
// point and A's columns have norm 1: the few columns make each sweep cheap, and c ≥ 0 is a clamp.
Fit fit_seconds(std::span<const TimedPoint> points) {
  require(!points.empty(), "[calibrate] no measurements; need at least one");
  const std::size_t n = points.front().x.size();
  std::vector<double> norm(n, 0.0);
  for (const TimedPoint& p : points) {
    for (std::size_t j = 0; j < n; ++j) norm[j] += std::pow(p.x[j] / p.scale(), 2);
  }
  for (double& v : norm) v = std::sqrt(v);
  std::vector<double> gram(n * n, 0.0);
  std::vector<double> target(n, 0.0);
  for (const TimedPoint& p : points) {
    for (std::size_t i = 0; i < n; ++i) {
      if (norm[i] == 0.0) continue;
      const double a = p.x[i] / p.scale() / norm[i];
      target[i] += a * p.seconds / p.scale();
      for (std::size_t j = 0; j < n; ++j) {
        if (norm[j] > 0.0) gram[i * n + j] += a * p.x[j] / p.scale() / norm[j];
      }
    }
  }
  Fit fit{std::vector<double>(n, 0.0), 0.0};
  constexpr int kSweeps = 20000;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    double moved = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      if (norm[i] == 0.0) continue;
      const std::span<const double> row(&gram[i * n], n);
      const double next =
          std::max(0.0, fit.coefficients[i] + target[i] - dot(row, fit.coefficients));
      moved = std::max(moved, std::abs(next - fit.coefficients[i]));
      fit.coefficients[i] = next;
    }
    if (moved < 1e-12) break;
  }
  for (std::size_t i = 0; i < n; ++i) {
    fit.coefficients[i] = norm[i] > 0.0 ? fit.coefficients[i] / norm[i] : 0.0;
  }
  for (const TimedPoint& p : points) {
    fit.error += std::pow((dot(p.x, fit.coefficients) - p.seconds) / p.scale(), 2);
  }
  fit.error = std::sqrt(fit.error / static_cast<double>(points.size()));
  return fit;
}

}  // namespace longspan
