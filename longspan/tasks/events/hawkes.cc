#include "longspan/tasks/events/hawkes.h"

#include <cmath>

namespace longspan {

namespace {

// Uniform in (0, 1), never either.
double open_uniform(RandomKey key, std::uint64_t index) {
  constexpr std::uint64_t kSteps = std::uint64_t{1} << 53U;
  return (static_cast<double>(random_below(key, index, kSteps)) + 0.5) /
         static_cast<double>(kSteps);
}

// What of the past excites each type now; it decays until the next event.
class Excitation {
 public:
  explicit Excitation(const HawkesProcess& process)
      : process_(process), excited_(process.types(), 0.0) {}

  void pass(double time) {
    const double left = std::exp(-process_.decay * time);
    for (double& e : excited_) e *= left;
  }
  void add(std::int32_t type) {
    for (std::size_t i = 0; i < excited_.size(); ++i) {
      excited_[i] += process_.influence[i][static_cast<std::size_t>(type)] * process_.decay;
    }
  }
  double rate(std::size_t type) const { return process_.base[type] + excited_[type]; }
  double total() const {
    double sum = 0.0;
    for (std::size_t i = 0; i < excited_.size(); ++i) sum += rate(i);
    return sum;
  }
  // ∫ Σ λ over the next `time` without an event.
  double integral(double time) const {
    double sum = 0.0;
    for (std::size_t i = 0; i < excited_.size(); ++i) {
      sum += process_.base[i] * time +
             excited_[i] * -std::expm1(-process_.decay * time) / process_.decay;
    }
    return sum;
  }

 private:
  const HawkesProcess& process_;
  std::vector<double> excited_;
};

}  // namespace

EventSequence HawkesProcess::simulate(RandomKey key, double end) const {
  EventSequence events;
  Excitation now(*this);
  std::uint64_t drawn = 0;
  double time = 0.0;
  while (true) {
    const double bound = now.total();  // it only falls until the next event
    const double wait = -std::log(open_uniform(key, drawn++)) / bound;
    time += wait;
    if (time > end) return events;
    now.pass(wait);
    double left = open_uniform(key, drawn++) * bound;
    for (std::size_t i = 0; i < types(); ++i) {
      left -= now.rate(i);
      if (left >= 0.0) continue;
      events.times.push_back(time);
      events.types.push_back(static_cast<std::int32_t>(i));
      now.add(events.types.back());
      break;
    }
  }
}

double HawkesProcess::log_likelihood(const EventSequence& events, double end) const {
  Excitation now(*this);
  double sum = 0.0;
  double last = 0.0;
  for (std::size_t i = 0; i < events.times.size(); ++i) {
    const double gap = events.times[i] - last;
    sum -= now.integral(gap);
    now.pass(gap);
    sum += std::log(now.rate(static_cast<std::size_t>(events.types[i])));
    now.add(events.types[i]);
    last = events.times[i];
  }
  return sum - now.integral(end - last);
}

std::vector<double> HawkesProcess::rescaled_gaps(const EventSequence& events) const {
  Excitation now(*this);
  std::vector<double> gaps;
  double last = 0.0;
  for (std::size_t i = 0; i < events.times.size(); ++i) {
    const double gap = events.times[i] - last;
    gaps.push_back(now.integral(gap));
    now.pass(gap);
    now.add(events.types[i]);
    last = events.times[i];
  }
  return gaps;
}

HawkesProcess example_hawkes() {
  return {.base = {0.2, 0.1}, .influence = {{0.3, 0.1}, {0.2, 0.4}}, .decay = 2.0};
}

}  // namespace longspan
