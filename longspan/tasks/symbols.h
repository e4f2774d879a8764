// Random sequences of symbols 1 … s; 0 is no symbol and stands where a sequence begins or ends.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/base/random.h"

namespace longspan {

// Sequence number `index` of the stream `key`.
void draw_symbols(RandomKey key, std::uint64_t index, std::size_t symbols,
                  std::span<std::int32_t> to);

// "3 17 5" → 3, 17, 5; throws Error where one is no symbol, or where there is none.
std::vector<std::int32_t> read_symbols(std::string_view who, std::string_view text,
                                       std::size_t symbols);
// Every token followed by a space, so that parts of a text join.
std::string write_symbols(std::span<const std::int32_t> tokens);

}  // namespace longspan
