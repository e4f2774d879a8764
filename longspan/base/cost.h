// What a layer does in one step: forward, the signal to its input, the signal to its parameters.
#pragma once

#include <cassert>
#include <functional>
#include <map>
#include <string>

#include "longspan/base/place.h"
#include "longspan/base/work.h"

namespace longspan {

struct Cost {
  Work forward;
  Work backward;
  Work update;

  Cost& operator+=(const Cost& more) {
    forward += more.forward;
    backward += more.backward;
    update += more.update;
    return *this;
  }
  bool operator==(const Cost&) const = default;
  friend Cost operator+(Cost a, const Cost& b) { return a += b; }
  // The optimiser is no layer's.
  Work& of(Phase phase) {
    assert(phase != Phase::kOptimizer);
    return phase == Phase::kForward ? forward : phase == Phase::kBackward ? backward : update;
  }
};

// By the meter's names of layers.
using CostTable = std::map<std::string, Cost, std::less<>>;

}  // namespace longspan
