#include "longspan/cost/scaling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/base/random.h"

namespace longspan {
namespace {

// Adds one query's softmax to the sums.
void add_softmax(const std::vector<double>& scores, ScoreStatistics& sums) {
  const double top = std::ranges::max(scores);
  double normaliser = 0.0;
  for (const double s : scores) normaliser += std::exp(s - top);
  double squares = 0.0;  // Σ p(1 − p) = 1 − Σ p²
  for (const double s : scores) squares += std::pow(std::exp(s - top) / normaliser, 2.0);
  sums.largest_weight += 1.0 / normaliser;
  sums.derivative += 1.0 - squares;
}

}  // namespace

ScoreStatistics sample_scores(const ScoreSample& sample) {
  require(sample.d_k > 0 && sample.keys > 0 && sample.queries > 0,
          "[scaling] d_k {}, {} keys, {} queries; need at least 1 of each", sample.d_k, sample.keys,
          sample.queries);
  const double scale = sample.scaled ? 1.0 / std::sqrt(static_cast<double>(sample.d_k)) : 1.0;
  const auto count = static_cast<double>(sample.queries * sample.keys);
  ScoreStatistics sums;
  std::vector<double> scores(sample.keys);
  std::uint64_t drawn = 0;
  for (std::size_t i = 0; i < sample.queries; ++i) {
    for (double& score : scores) {
      score = 0.0;
      for (std::size_t j = 0; j < sample.d_k; ++j, drawn += 2) {
        score += random_normal(sample.seed, drawn) * random_normal(sample.seed, drawn + 1);
      }
      score *= scale;
      sums.mean += score;
      sums.variance += score * score;
    }
    add_softmax(scores, sums);
  }
  const auto queries = static_cast<double>(sample.queries);
  const double mean = sums.mean / count;
  return {mean, sums.variance / count - mean * mean, sums.largest_weight / queries,
          sums.derivative / queries};
}

}  // namespace longspan
