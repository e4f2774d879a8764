// A multivariate Hawkes process with exponential kernels, simulated, fitted, and its exact
// likelihood.
//
//   λ_i(t) = μ_i + Σ_{t_k < t} α_{i, m_k}·β·e^(−β(t − t_k))
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "longspan/base/random.h"

namespace longspan {

struct EventSequence {
  std::vector<double> times;  // rising
  std::vector<std::int32_t> types;
};

// What of a sequence is judged: with a window [0, w] all that is in it; without one, the events
// behind the first, until the last.
struct Watched {
  std::size_t first = 0;  // event
  double begin = 0.0;
  double end = 0.0;
};
Watched watched(const EventSequence& events, double window);

// What a process makes of events.
struct EventScore {
  double log_likelihood = 0.0;  // Σ log λ − ∫ Σ λ
  std::size_t events = 0;
  std::size_t correct = 0;       // whose type had the highest intensity
  double squares = 0.0;          // of the errors of the waits expected (waits.h)
  std::vector<double> rescaled;  // ∫ Σ λ over each gap
};

struct HawkesProcess {
  std::vector<double> base;                    // μ
  std::vector<std::vector<double>> influence;  // α[of][from]: events that one brings about
  double decay = 1.0;                          // β

  std::size_t types() const { return base.size(); }
  // All events of [0, end], by thinning: a function of the key.
  EventSequence simulate(RandomKey key, double end) const;
  // Adds what is watched of a sequence; waits are expected up to `horizon`.
  void judge(const EventSequence& events, double window, double horizon, EventScore& score) const;
};

// Two types that excite themselves and each other.
HawkesProcess example_hawkes();

// The likeliest process for the sequences without influence, a Poisson process, and with it, as
// expectation–maximisation finds it from several decays. A type that never came has the rate of
// half an event.
HawkesProcess fit_poisson(std::span<const EventSequence> all, std::size_t types, double window);
HawkesProcess fit_hawkes(std::span<const EventSequence> all, std::size_t types, double window);

}  // namespace longspan
