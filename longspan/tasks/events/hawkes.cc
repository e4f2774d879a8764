#include "longspan/tasks/events/hawkes.h"

#include <algorithm>
#include <cmath>

#include "longspan/tasks/events/open_uniform.h"
#include "longspan/tasks/events/waits.h"

namespace longspan {

namespace {

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
  double total_after(double time) const {
    const double left = std::exp(-process_.decay * time);
    double sum = 0.0;
    for (std::size_t i = 0; i < excited_.size(); ++i) sum += process_.base[i] + excited_[i] * left;
    return sum;
  }
  std::size_t likeliest() const {
    std::size_t best = 0;
    for (std::size_t i = 1; i < excited_.size(); ++i) {
      if (rate(i) > rate(best)) best = i;
    }
    return best;
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

Watched watched(const EventSequence& events, double window) {
  if (window > 0.0) return {0, 0.0, window};
  if (events.times.empty()) return {};
  return {1, events.times.front(), events.times.back()};
}

void HawkesProcess::judge(const EventSequence& events, double window, double horizon,
                          EventScore& score) const {
  Excitation now(*this);
  const Watched part = watched(events, window);
  double last = part.begin;
  for (std::size_t i = 0; i < events.times.size(); ++i) {
    if (i >= part.first) {
      const double gap = events.times[i] - last;
      const double wait = expected_wait([&](double s) { return now.total_after(s); }, horizon);
      score.squares += (wait - gap) * (wait - gap);
      score.rescaled.push_back(now.integral(gap));
      now.pass(gap);
      const auto type = static_cast<std::size_t>(events.types[i]);
      score.log_likelihood += std::log(now.rate(type)) - score.rescaled.back();
      score.correct += now.likeliest() == type ? 1 : 0;
      ++score.events;
    }
    now.add(events.types[i]);
    last = events.times[i];
  }
  score.log_likelihood -= now.integral(part.end - last);
}

HawkesProcess example_hawkes() {
  return {.base = {0.2, 0.1}, .influence = {{0.3, 0.1}, {0.2, 0.4}}, .decay = 2.0};
}

}  // namespace longspan
