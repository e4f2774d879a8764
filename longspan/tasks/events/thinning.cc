#include "longspan/tasks/events/thinning.h"

#include <algorithm>
#include <cmath>

#include "longspan/tasks/events/open_uniform.h"

namespace longspan {

namespace {

// The most that λ can be from s to s + h.
double bound(const Intensities& intensities, double s, double h) {
  double sum = 0.0;
  for (std::size_t k = 0; k < intensities.types(); ++k) {
    sum += std::max(intensities.rate(k, s), intensities.rate(k, s + h));
  }
  return sum;
}

}  // namespace

std::optional<DrawnEvent> draw_event(const Intensities& intensities, RandomKey key,
                                     double horizon) {
  constexpr double kStretch = 0.5;  // mean gaps that a bound is for
  std::uint64_t drawn = 0;
  for (double s = 0.0; s < horizon;) {
    const double h = std::min(std::max(kStretch, 0.5 * s), horizon - s);
    const double most = bound(intensities, s, h);
    const double wait = -std::log(open_uniform(key, drawn++)) / most;
    if (!(wait < h)) {
      s += h;
      continue;
    }
    s += wait;
    double left = open_uniform(key, drawn++) * most;
    for (std::size_t k = 0; k < intensities.types(); ++k) {
      left -= intensities.rate(k, s);
      if (left < 0.0) return DrawnEvent{s, static_cast<std::int32_t>(k)};
    }
  }
  return std::nullopt;
}

}  // namespace longspan
