// Expectation–maximisation of a Hawkes process (Veen and Schoenberg, 2008): each event came of
// itself or of one before it, with probabilities in proportion to the terms of its intensity.
//
//   R_j = Σ_{k < i, m_k = j} e^(−β(t_i − t_k)),   D_j = Σ (t_i − t_k)·e^(−β(t_i − t_k))
//   p_i0 = μ_m/λ_m,   p_ij = α_mj·β·R_j/λ_m
//   μ_m = Σ p_i0 / T,   α_mj = Σ p_ij / Σ_{k: m_k = j} (1 − e^(−β(T − t_k)))
//   β = ΣΣ p_ij / (Σ α_mj·β·D_j/λ_m + Σ_k A_{m_k}·(T − t_k)·e^(−β(T − t_k))),   A_j = Σ_m α_mj
#include <algorithm>
#include <array>
#include <cmath>

#include "longspan/tasks/events/hawkes.h"

namespace longspan {

namespace {

// Sums over all sequences of one step.
struct Expected {
  explicit Expected(std::size_t types)
      : own(types, 0.0), brought(types, std::vector<double>(types, 0.0)), chances(types, 0.0) {}

  double log_likelihood = 0.0;
  double time = 0.0;
  std::vector<double> own;                   // Σ p_i0, by type
  std::vector<std::vector<double>> brought;  // Σ p_ij
  std::vector<double> chances;               // Σ 1 − e^(−β(T − t_k))
  double delays = 0.0;                       // the denominator of β
};

class Expectation {
 public:
  Expectation(const HawkesProcess& process, Expected& sums)
      : process_(process), sums_(sums), near_(process.types()), late_(process.types()) {
    for (std::size_t j = 0; j < process.types(); ++j) {
      double all = 0.0;
      for (const std::vector<double>& of : process.influence) all += of[j];
      influences_.push_back(all);
    }
    for (const double rate : process.base) rates_ += rate;
  }

  void add(const EventSequence& events, double window) {
    const Watched part = watched(events, window);
    std::ranges::fill(near_, 0.0);
    std::ranges::fill(late_, 0.0);
    for (std::size_t i = 0; i < events.times.size(); ++i) {
      const auto type = static_cast<std::size_t>(events.types[i]);
      if (i > 0) pass(events.times[i] - events.times[i - 1]);
      if (i >= part.first) come(type);
      near_[type] += 1.0;
      leave(type, part.end - events.times[i]);
    }
    sums_.time += part.end - part.begin;
    sums_.log_likelihood -= rates_ * (part.end - part.begin);
  }

 private:
  void pass(double gap) {
    const double left = std::exp(-process_.decay * gap);
    for (std::size_t j = 0; j < near_.size(); ++j) {
      late_[j] = left * (late_[j] + gap * near_[j]);
      near_[j] *= left;
    }
  }
  void come(std::size_t type) {
    const std::vector<double>& influence = process_.influence[type];
    double rate = process_.base[type];
    for (std::size_t j = 0; j < near_.size(); ++j) rate += influence[j] * process_.decay * near_[j];
    sums_.log_likelihood += std::log(rate);
    sums_.own[type] += process_.base[type] / rate;
    const double each = process_.decay / rate;
    for (std::size_t j = 0; j < near_.size(); ++j) {
      sums_.brought[type][j] += each * influence[j] * near_[j];
      sums_.delays += each * influence[j] * late_[j];
    }
  }
  // What an event brings about until the end, and what the end cuts off.
  void leave(std::size_t type, double until) {
    const double left = std::exp(-process_.decay * until);
    sums_.chances[type] += 1.0 - left;
    sums_.log_likelihood -= influences_[type] * (1.0 - left);
    sums_.delays += influences_[type] * until * left;
  }

  const HawkesProcess& process_;
  Expected& sums_;
  std::vector<double> near_;  // R
  std::vector<double> late_;  // D
  std::vector<double> influences_;
  double rates_ = 0.0;
};

Expected expect(const HawkesProcess& process, std::span<const EventSequence> all, double window) {
  Expected sums(process.types());
  Expectation expectation(process, sums);
  for (const EventSequence& events : all) expectation.add(events, window);
  return sums;
}

void maximise(const Expected& sums, double fastest, HawkesProcess& process) {
  double brought = 0.0;
  for (std::size_t i = 0; i < process.types(); ++i) {
    process.base[i] = std::max(sums.own[i], 1e-6) / sums.time;
    for (std::size_t j = 0; j < process.types(); ++j) {
      process.influence[i][j] = sums.brought[i][j] / std::max(sums.chances[j], 1e-9);
      brought += sums.brought[i][j];
    }
  }
  if (brought > 0.0 && sums.delays > 0.0) process.decay = std::min(brought / sums.delays, fastest);
}

struct Fitted {
  HawkesProcess process;
  double log_likelihood = 0.0;
};

// Until a step gains less than `enough`.
void improve(std::span<const EventSequence> all, double window, std::size_t steps, double enough,
             double fastest, Fitted& fitted) {
  for (std::size_t step = 0; step < steps; ++step) {
    const Expected sums = expect(fitted.process, all, window);
    const double gained = sums.log_likelihood - fitted.log_likelihood;
    fitted.log_likelihood = sums.log_likelihood;
    if (step > 0 && gained < enough) return;
    maximise(sums, fastest, fitted.process);
  }
}

}  // namespace

HawkesProcess fit_poisson(std::span<const EventSequence> all, std::size_t types, double window) {
  HawkesProcess process{.base = std::vector<double>(types, 0.0),
                        .influence = std::vector(types, std::vector<double>(types, 0.0))};
  double time = 0.0;
  for (const EventSequence& events : all) {
    const Watched part = watched(events, window);
    time += part.end - part.begin;
    for (std::size_t i = part.first; i < events.types.size(); ++i) {
      process.base[static_cast<std::size_t>(events.types[i])] += 1.0;
    }
  }
  // What never happened is not impossible: it has half an event of the same number in all.
  double events = 0.0;
  double counted = 0.0;
  for (const double count : process.base) {
    events += count;
    counted += std::max(count, 0.5);
  }
  for (double& rate : process.base) rate = std::max(rate, 0.5) / counted * events / time;
  return process;
}

HawkesProcess fit_hawkes(std::span<const EventSequence> all, std::size_t types, double window) {
  const HawkesProcess poisson = fit_poisson(all, types, window);
  double rate = 0.0;  // of all types: the measure of time
  for (const double r : poisson.base) rate += r;
  double events = 0.0;
  for (const EventSequence& e : all) events += static_cast<double>(e.times.size());
  const double enough = 1e-7 * events;
  const double fastest = 1e4 * rate;  // events of one time would make it boundless
  constexpr std::array<double, 3> kDecays = {0.2, 3.0, 45.0};
  constexpr std::size_t kTrial = 25;
  constexpr std::size_t kMost = 200;
  Fitted best;
  for (const double decay : kDecays) {
    Fitted trial{poisson};
    trial.process.decay = decay * rate;
    for (std::size_t i = 0; i < types; ++i) {
      trial.process.base[i] *= 0.5;
      std::ranges::fill(trial.process.influence[i], 0.5 * poisson.base[i] / rate);
    }
    improve(all, window, kTrial, enough, fastest, trial);
    if (best.process.base.empty() || trial.log_likelihood > best.log_likelihood) best = trial;
  }
  improve(all, window, kMost, enough, fastest, best);
  return best.process;
}

}  // namespace longspan
