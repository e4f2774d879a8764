// The middle of some numbers.
#pragma once

#include <algorithm>
#include <vector>

namespace longspan {

// Of at least one; of an even number of them, between the two in the middle.
inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t n = values.size();
  return 0.5 * (values[(n - 1) / 2] + values[n / 2]);
}

}  // namespace longspan
