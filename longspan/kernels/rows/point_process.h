// The likelihood of events of K types in continuous time, of rows of scores that say how intensities
// run (base/intensity.h):
//
//   L = −log λ_y(τ) + Σ_k ∫₀^τ λ_k(s) ds
//
// for an event of type y after the gap τ; where the window ends without one there is no first
// term.
//
// Counted: 20 FLOPs (kSoftmax) per score, 30 with the gradient.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "longspan/base/intensity.h"
#include "longspan/base/view.h"

namespace longspan {

inline constexpr std::int32_t kIgnoredRow = -1;

struct EventRows {
  std::span<const std::int32_t> types;  // 0 … K−1, kIgnoredRow or kNoEvent
  std::span<const float> gaps;          // τ ≥ 0
};

struct EventModel {
  Decay decay = Decay::kExponential;
  Integration integration = Integration::kExact;
};

struct PointProcessSum {
  double loss = 0.0;
  std::size_t events = 0;
  std::size_t correct = 0;  // whose type had the highest intensity
};

// The sum only; scores are kept.
PointProcessSum point_process(EventModel model, ConstMatrix scores, const EventRows& rows);
// In place: scores become the gradient of scale·loss.
PointProcessSum point_process_gradient(EventModel model, Matrix scores, const EventRows& rows,
                                       float scale);

}  // namespace longspan
