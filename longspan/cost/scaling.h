// Why scores are divided by √d_k, by sampling.
//
//   q_i, k_i independent, mean 0, variance 1:   E[q·k] = Σ E[q_i]·E[k_i] = 0
//   Var[q_i·k_i] = (1 + 0)(1 + 0) − 0 = 1, so    Var[q·k] = d_k,   Var[q·k/√d_k] = 1
//
// A softmax of scores with deviation √d_k is nearly one-hot, and its derivative
// ∂p_i/∂s_i = p_i(1 − p_i) nearly 0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace longspan {

struct ScoreStatistics {
  double mean = 0.0;
  double variance = 0.0;
  double largest_weight = 0.0;  // mean over queries of max_i p_i
  double derivative = 0.0;      // mean over queries of Σ_i p_i(1 − p_i), at most 1 − 1/keys
};

struct ScoreSample {
  std::size_t d_k = 64;
  std::size_t keys = 64;  // that a query sees
  std::size_t queries = 256;
  bool scaled = true;
  std::uint64_t seed = 1;
};
ScoreStatistics sample_scores(const ScoreSample& sample);

}  // namespace longspan
