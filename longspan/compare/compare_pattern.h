// Which query sees which key, shrunk to a small square, of mechanisms whose pattern is fixed.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace longspan {

// cells[row][column] = 1 where some query of the row's part sees some key of the column's. Nothing
// where the pattern depends on the data, or there is none.
std::optional<std::vector<std::vector<std::uint64_t>>> small_pattern(std::string_view attention,
                                                                     std::size_t length,
                                                                     std::size_t cells,
                                                                     bool causal);

}  // namespace longspan
