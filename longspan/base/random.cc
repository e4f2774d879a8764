#include "longspan/base/random.h"

#include <cmath>
#include <numbers>

namespace longspan {

float random_normal(RandomKey key, std::uint64_t index) {
  const RandomBlock r = philox(
      key, {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32U), 2, 0});
  const double u = (static_cast<double>(r[0]) + 0.5) * 0x1p-32;  // never 0: the logarithm is finite
  const double v = static_cast<double>(r[1]) * 0x1p-32;
  return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v));
}

}  // namespace longspan
