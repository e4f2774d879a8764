// Text in lines of a width that is counted in characters, as a terminal shows them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace longspan {

// Of a terminal that does not say.
inline constexpr std::size_t kUsualColumns = 80;

// Of UTF-8: where letters begin, and how many columns they take; a mark over a letter takes none.
std::size_t size_of_letter(std::string_view text);
std::size_t text_columns(std::string_view text);

// At most `columns` characters, the last of them an ellipsis where there are more.
std::string clipped(std::string_view text, std::size_t columns);

// Words broken before column `width`, with `indent` spaces before each line but the first, whose
// `used` columns are taken already. Spaces in a row stay where they are not broken.
std::string broken(std::string_view text, std::size_t width, std::size_t indent,
                   std::size_t used = 0);

// Broken between words, with the end of each line; a word that is too long has a line of its own.
// Lines after the first are set in like the first.
std::string wrapped(std::string_view text, std::size_t columns);

}  // namespace longspan
