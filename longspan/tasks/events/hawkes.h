// A multivariate Hawkes process with exponential kernels, simulated, and its exact likelihood.
//
//   λ_i(t) = μ_i + Σ_{t_k < t} α_{i, m_k}·β·e^(−β(t − t_k))
#pragma once

#include <cstdint>
#include <vector>

#include "longspan/base/random.h"

namespace longspan {

struct EventSequence {
  std::vector<double> times;  // rising
  std::vector<std::int32_t> types;
};

struct HawkesProcess {
  std::vector<double> base;                    // μ
  std::vector<std::vector<double>> influence;  // α[of][from]: events that one brings about
  double decay = 1.0;                          // β

  std::size_t types() const { return base.size(); }
  // All events of [0, end], by thinning: a function of the key.
  EventSequence simulate(RandomKey key, double end) const;
  // Σ log λ − ∫ Σ λ over [0, end].
  double log_likelihood(const EventSequence& events, double end) const;
  // ∫ Σ λ from each event to the next, the first from 0: exponential of mean 1 if the process is
  // that of the events.
  std::vector<double> rescaled_gaps(const EventSequence& events) const;
};

// Two types that excite themselves and each other.
HawkesProcess example_hawkes();

}  // namespace longspan
