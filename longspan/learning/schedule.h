// Learning-rate schedules: a linear warm-up to the peak, then constant, or down to the floor along
// a line or half a cosine.
#pragma once

#include <cstdint>
#include <string_view>

#include "longspan/base/choice.h"

namespace longspan {

enum class ScheduleKind : std::uint8_t { kConstant, kLinear, kCosine };
constexpr Names<3> names_of(ScheduleKind /*kind*/) {
  return {"schedule", "schedule", {"constant", "linear", "cosine"}};
}

struct ScheduleConfig {
  Choice<ScheduleKind> kind = ScheduleKind::kCosine;
  float peak = 1e-3F;
  float floor = 1e-4F;
  std::uint64_t warmup = 100;  // steps
  std::uint64_t total = 2000;  // steps until the floor

  bool operator==(const ScheduleConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("schedule", kind);
    see("learning_rate", peak, above_to(0, 1000));
    see("learning_rate_floor", floor, from_to(0, 1000));
    see("warmup", warmup, from_to(0, 1e12));
    see("schedule_steps", total, from_to(0, 1e12));
  }
};

void check(const ScheduleConfig& config);

// Whether a schedule of this kind reads a field of its config.
bool reads(ScheduleKind kind, std::string_view field);

// The rate of step `step`, counted from 0.
float learning_rate(const ScheduleConfig& config, std::uint64_t step);

}  // namespace longspan
