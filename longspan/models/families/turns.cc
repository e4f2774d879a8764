#include "longspan/models/families/turns.h"

#include <fmt/format.h>

#include <algorithm>

namespace longspan {

std::string in_turn(const std::vector<std::string>& layers) {
  const auto repeats = [&](std::size_t period) {
    for (std::size_t i = period; i < layers.size(); ++i) {
      if (layers[i] != layers[i - period]) return false;
    }
    return true;
  };
  std::size_t period = 1;
  while (period < layers.size() && !repeats(period)) ++period;
  return fmt::format(
      "{}", fmt::join(layers.begin(),
                      layers.begin() + static_cast<std::ptrdiff_t>(std::min(period, layers.size())),
                      "|"));
}

}  // namespace longspan
