#include "longspan/learning/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "longspan/base/error.h"
#include "longspan/base/number.h"

namespace longspan {

void check(const ScheduleConfig& c) {
  check_numbers("schedule", c);
  require(c.floor <= c.peak, "[schedule] the lowest learning rate is {}; need 0 to {}", c.floor,
          c.peak);
}

bool reads(ScheduleKind kind, std::string_view field) {
  const bool falls = kind != ScheduleKind::kConstant;
  return falls || (field != "learning_rate_floor" && field != "schedule_steps");
}

float learning_rate(const ScheduleConfig& c, std::uint64_t step) {
  if (step < c.warmup) {
    return c.peak * static_cast<float>(step + 1) / static_cast<float>(c.warmup + 1);
  }
  if (c.kind == ScheduleKind::kConstant) return c.peak;
  if (step >= c.total) return c.floor;
  const double done = static_cast<double>(step - c.warmup) /
                      static_cast<double>(std::max<std::uint64_t>(1, c.total - c.warmup));
  const double left = c.kind == ScheduleKind::kLinear
                          ? 1.0 - done
                          : 0.5 * (1.0 + std::cos(std::numbers::pi * done));
  return static_cast<float>(c.floor + left * (c.peak - c.floor));
}

}  // namespace longspan
