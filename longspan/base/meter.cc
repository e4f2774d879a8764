#include "longspan/base/meter.h"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace longspan {

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

thread_local Meter* Meter::current_ = nullptr;

std::string_view name_of(Phase phase) {
  constexpr std::array<std::string_view, kPhases> kNames = {"forward", "backward", "update",
                                                            "optimizer"};
  return kNames[static_cast<std::size_t>(phase)];
}

std::string_view name_of(Kind kind) {
  constexpr std::array<std::string_view, kKinds> kNames = {
      "matmul", "softmax", "norm",      "activation", "add",  "dropout",
      "gather", "rotary",  "optimizer", "feature",    "hash", "sort"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::uint64_t Work::other_flops() const {
  return std::accumulate(other.begin(), other.end(), std::uint64_t{0});
}
std::uint64_t Work::total_bytes() const {
  return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
}

Work& Work::operator+=(const Work& more) {
  maccs += more.maccs;
  for (std::size_t i = 0; i < kKinds; ++i) {
    other[i] += more.other[i];
    bytes[i] += more.bytes[i];
  }
  return *this;
}

Work operator*(std::uint64_t count, Work work) {
  work.maccs *= count;
  for (auto& f : work.other) f *= count;
  for (auto& b : work.bytes) b *= count;
  return work;
}

Meter::Use::Use(Meter& meter) : previous_(std::exchange(current_, &meter)) {
  if (meter.target_ == nullptr) meter.target_ = &meter.entries_[{"", Phase::kForward}];
}
Meter::Use::~Use() { current_ = previous_; }

Meter::Scope::Scope(std::string_view layer, Phase phase) : meter_(current_) {
  if (meter_ == nullptr) return;
  previous_ = std::exchange(meter_->target_, &meter_->entries_[{std::string(layer), phase}]);
}
Meter::Scope::~Scope() {
  if (meter_ != nullptr) meter_->target_ = previous_;
}

Work Meter::at(std::string_view layer, Phase phase) const {
  const auto it = entries_.find({std::string(layer), phase});
  return it == entries_.end() ? Work{} : it->second;
}

Work Meter::total(Phase phase) const {
  Work sum;
  for (const auto& [key, work] : entries_) {
    if (key.second == phase) sum += work;
  }
  return sum;
}

void Meter::clear() {
  entries_.clear();
  target_ = &entries_[{"", Phase::kForward}];
}

void Meter::matmul(std::uint64_t m, std::uint64_t n, std::uint64_t k, std::uint64_t times) {
  if (!on()) return;
  Work work;
  work.maccs = times * m * n * k;
  work.bytes[static_cast<std::size_t>(Kind::kMatmul)] = times * 4 * (m * k + k * n + m * n);
  report(work);
}

void Meter::flops(Kind kind, std::uint64_t flops, std::uint64_t bytes) {
  if (!on()) return;
  Work work;
  work.other[static_cast<std::size_t>(kind)] = flops;
  work.bytes[static_cast<std::size_t>(kind)] = bytes;
  report(work);
}

void Meter::report(const Work& work) {
  if (!on()) return;
  *current_->target_ += work;
  if (!current_->timed_) return;
  const double time = now();
  current_->laps_.push_back({work, time - current_->lap_start_});
  current_->lap_start_ = time;
}

void Meter::time_laps() {
  timed_ = true;
  laps_.clear();
  lap_start_ = now();
}

}  // namespace longspan
