// Tokens sorted by group: the order in which the members of a group lie side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace longspan {

// order = the indices i of `group` by (group[i], i): a stable counting sort, O(n + groups). Every
// group[i] is in [0, groups). `first` has groups + 1 entries: afterwards group g is
// order[first[g] … first[g + 1]).
void sort_by_group(std::span<const std::int32_t> group, std::span<std::int32_t> first,
                   std::int32_t* order);

}  // namespace longspan
