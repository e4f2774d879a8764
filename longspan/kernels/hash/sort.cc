#include "longspan/kernels/hash/sort.h"

#include <algorithm>

namespace longspan {

void sort_by_group(std::span<const std::int32_t> group, std::span<std::int32_t> first,
                   std::int32_t* order) {
  std::ranges::fill(first, 0);
  for (const std::int32_t g : group) ++first[static_cast<std::size_t>(g) + 1];
  for (std::size_t g = 1; g < first.size(); ++g) first[g] += first[g - 1];
  // Each start moves to the next one's place while its group is filled, and back afterwards.
  for (std::size_t i = 0; i < group.size(); ++i) {
    order[first[static_cast<std::size_t>(group[i])]++] = static_cast<std::int32_t>(i);
  }
  std::shift_right(first.begin(), first.end(), 1);
  first[0] = 0;
}

}  // namespace longspan
