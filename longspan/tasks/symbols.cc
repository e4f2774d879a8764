#include "longspan/tasks/symbols.h"

#include <fmt/core.h>

#include "longspan/base/config.h"
#include "longspan/base/error.h"

namespace longspan {

void draw_symbols(RandomKey key, std::uint64_t index, std::size_t symbols,
                  std::span<std::int32_t> to) {
  const RandomKey sequence = derive(key, index);
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i] = 1 + static_cast<std::int32_t>(random_below(sequence, i, symbols));
  }
}

std::vector<std::int32_t> read_symbols(std::string_view who, std::string_view text,
                                       std::size_t symbols) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::vector<std::int32_t> tokens;
  for (std::size_t at = text.find_first_not_of(kSpace); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    const std::int64_t symbol = parse_integer(who, "a symbol", text.substr(at, end - at));
    require(symbol >= 1 && static_cast<std::size_t>(symbol) <= symbols,
            "[{}] the symbol {}; need 1 to {}", who, symbol, symbols);
    tokens.push_back(static_cast<std::int32_t>(symbol));
    at = text.find_first_not_of(kSpace, end);
  }
  require(!tokens.empty(), "[{}] no symbols; need some from 1 to {}, such as \"3 1 2\"", who,
          symbols);
  return tokens;
}

std::string write_symbols(std::span<const std::int32_t> tokens) {
  std::string text;
  for (const std::int32_t token : tokens) text += fmt::format("{} ", token);
  return text;
}

}  // namespace longspan
