// Random numbers whose logarithm is finite.
#pragma once

#include "longspan/base/random.h"

namespace longspan {

// Uniform in (0, 1), never either, with 53 bits.
constexpr double open_uniform(RandomKey key, std::uint64_t index) {
  constexpr std::uint64_t kSteps = std::uint64_t{1} << 53U;
  return (static_cast<double>(random_below(key, index, kSteps)) + 0.5) /
         static_cast<double>(kSteps);
}

}  // namespace longspan
