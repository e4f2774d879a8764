#include "longspan/tasks/events/waits.h"

namespace longspan {

KolmogorovSmirnov exponential_fit(std::vector<double> sample) {
  KolmogorovSmirnov fit;
  if (sample.empty()) return fit;
  std::ranges::sort(sample);
  const auto n = static_cast<double>(sample.size());
  for (std::size_t i = 0; i < sample.size(); ++i) {
    const double share = -std::expm1(-sample[i]);
    fit.distance = std::max(
        {fit.distance, share - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - share});
  }
  const double x = fit.distance * (std::sqrt(n) + 0.12 + 0.11 / std::sqrt(n));
  constexpr double kCertain = 0.2;  // below, the alternating sum is 1 to the last digit
  if (x < kCertain) return fit;
  constexpr int kTerms = 100;
  double sum = 0.0;
  for (int j = 1; j <= kTerms; ++j)
    sum += (j % 2 == 1 ? 2.0 : -2.0) * std::exp(-2.0 * j * j * x * x);
  fit.p = std::clamp(sum, 0.0, 1.0);
  return fit;
}

}  // namespace longspan
