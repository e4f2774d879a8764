// The next event of a process whose intensities are known, by thinning (Ogata, 1981).
//
// Each intensity is monotonous, so that over [s, s + h] it is nowhere above the larger of its ends:
// candidates come at the rate of these bounds and stay with the probability λ over bound.
#pragma once

#include <optional>

#include "longspan/base/intensity.h"
#include "longspan/base/random.h"

namespace longspan {

struct DrawnEvent {
  double wait = 0.0;
  std::int32_t type = 0;
};

// A function of the key; none where nothing comes until `horizon`.
std::optional<DrawnEvent> draw_event(const Intensities& intensities, RandomKey key, double horizon);

}  // namespace longspan
