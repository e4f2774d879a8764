// What the published code of the Transformer Hawkes process (Zuo et al., 2020, arXiv:2002.09291)
// computes of a sequence, as it computes it. It is no likelihood: an event is scored by the state
// that has seen it, and the compensator knows its type alone. From the scores s of K types, c of the
// next type and p of the time until the next event, y and t the types and times:
//
//   softplus(x) = log(1 + exp(min(β·x, 20)))/β
//   events = Σ_j log(softplus(s_j,y_j) + 1e-9)
//   rest   = Σ_{j ≥ 1} Δ_j·mean_u softplus(s_j,y_j + α·u·Δ_j/(t_{j−1} + 1)),   Δ_j = t_j − t_{j−1}
//   types  = Σ_j crossentropy(c_j, y_{j+1})    its target 1 − ε, and ε/K of the other types
//   times  = Σ_j (p_j − Δ_{j+1})²              into the padding too, whose times are 0
//   L      = −(events − rest) + types + times/100
//
// with u uniform: given, or drawn as a function of the two times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "longspan/base/view.h"

namespace longspan {

struct PublishedHawkes {
  double alpha = -0.1;
  double beta = 1.0;
  double smoothing = 0.0;  // ε
};

// Scores of a row: K of intensities, K of the next type, one of the next time.
constexpr std::size_t published_scores(std::size_t types) { return 2 * types + 1; }

struct PublishedSequence {
  std::span<const std::int32_t> types;  // of its events; what is behind them is padding
  std::span<const float> times;         // of all rows
  std::span<const float> uniform = {};  // kPublishedDraws of each row but the first, or none
};
inline constexpr std::size_t kPublishedDraws = 100;

struct PublishedSums {
  double events = 0.0;
  double rest = 0.0;
  double types = 0.0;
  double times = 0.0;
  std::size_t counted = 0;  // events that follow another
  std::size_t correct = 0;  // of those, whose type had the highest score
  double d_alpha = 0.0;     // of L
  double d_beta = 0.0;

  double loss() const { return rest - events + types + times / 100.0; }
  void add(const PublishedSums& other);
};

// `scores` has a row for each time. With `gradient`, which may be the scores, scale·∂L/∂scores is
// written to it.
PublishedSums published_hawkes(const PublishedHawkes& model, const PublishedSequence& sequence,
                               ConstMatrix scores, const Matrix* gradient, double scale);

}  // namespace longspan
