// Exact integers of 128 bits: GPT-3 trained on 300 G tokens is 4.4e23 FLOPs, past 64 bits.
#pragma once

#include <optional>
#include <string>

namespace longspan {

__extension__ typedef __int128 Integer;  // NOLINT(modernize-use-using): __extension__ needs it

// a + b and a · b, or nothing where the result needs more than 128 bits.
std::optional<Integer> checked_add(Integer a, Integer b);
std::optional<Integer> checked_multiply(Integer a, Integer b);

// The same, or Error.
Integer add_exactly(Integer a, Integer b);
Integer multiply_exactly(Integer a, Integer b);

// 8781824 → "8781824".
std::string to_decimal(Integer value);
// 8781824 → "8,781,824".
std::string to_grouped_decimal(Integer value, char separator = ',');

}  // namespace longspan
