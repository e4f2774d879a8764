#include "longspan/base/meter.h"

#include <chrono>

namespace longspan {

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Work Meter::at(std::string_view layer, Phase phase) const {
  Work sum;
  for (const auto& [key, work] : entries_) {
    if (key.layer == layer && key.phase == phase) sum += work;
  }
  return sum;
}

Work Meter::total(Phase phase) const {
  Work sum;
  for (const auto& [key, work] : entries_) {
    if (key.phase == phase) sum += work;
  }
  return sum;
}

void Meter::clear() {
  entries_.clear();
  target_ = nullptr;
}

void Meter::hear(const Call& call) {
  const Place& place = Place::now();
  if (target_ == nullptr || place.layer != place_.layer || place.phase != place_.phase ||
      place.part != place_.part) {
    target_ = &entries_[{place.part, std::string(place.layer), place.phase}];
    place_ = place;
  }
  *target_ += call.work;
  if (!timed_) return;
  const double time = now();
  laps_.push_back({call.work, time - lap_start_});
  lap_start_ = time;
}

CostTable cost_of(const Meter& meter) {
  CostTable table;
  for (const auto& [key, work] : meter.entries()) {
    if (key.phase != Phase::kOptimizer && work.flops() > 0) table[key.layer].of(key.phase) += work;
  }
  return table;
}

void Meter::time_laps() {
  timed_ = true;
  laps_.clear();
  lap_start_ = now();
}

}  // namespace longspan
