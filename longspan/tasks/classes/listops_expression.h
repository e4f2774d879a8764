// Nested lists of one-digit numbers under four operators (Nangia and Bowman 2018):
//
//   [MIN 2 9 [SM 4 8 ] ]  →  min(2, 9, (4 + 8) mod 10) = 2
//
// MED is the integer part of the median, SM the sum modulo 10. A token is a byte: a digit its value,
// then the operators, then the closing bracket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/base/random.h"

namespace longspan {

inline constexpr std::size_t kListOpsTokens = 15;

// The token of "[MIN", "7" or "]".
std::optional<std::uint8_t> listops_token(std::string_view word);
std::string_view listops_word(std::uint8_t token);

// The value of an expression. Throws Error, "token 12: …", where it is none.
std::int32_t listops_value(std::span<const std::uint8_t> tokens);

// How expressions are drawn: a node above the greatest depth is an operator with probability 1/4,
// of 2 to `arguments` nodes, and else a digit. Those of a length strictly between the two ends are
// kept.
struct ListOpsRules {
  std::size_t depth = 10;
  std::size_t arguments = 10;
  std::size_t above = 500;
  std::size_t below = 2000;
};

// Draws until an expression is kept; throws Error where none comes. A function of `key`.
std::vector<std::uint8_t> draw_listops(RandomKey key, const ListOpsRules& rules);

}  // namespace longspan
