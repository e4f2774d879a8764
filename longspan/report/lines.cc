#include "longspan/report/lines.h"

#include <algorithm>

namespace longspan {

namespace {

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

}  // namespace

std::size_t text_columns(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, &begins_character));
}

std::string clipped(std::string_view text, std::size_t columns) {
  if (text_columns(text) <= columns) return std::string(text);
  std::size_t end = 0;
  for (std::size_t seen = 0; end < text.size(); ++end) {
    if (begins_character(text[end]) && ++seen >= columns) break;
  }
  return std::string(text.substr(0, end)) + "…";
}

std::string wrapped(std::string_view text, std::size_t columns) {
  const std::string margin(std::min(text.find_first_not_of(' '), text.size()), ' ');
  std::string lines = margin;
  std::size_t column = margin.size();
  text.remove_prefix(margin.size());
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    const bool first = column == margin.size();
    const std::size_t needed = text_columns(word) + (first ? 0 : 1);
    if (!first && column + needed > columns) {
      lines += "\n" + margin;
      column = margin.size();
    } else if (!first) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += text_columns(word);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines + "\n";
}

}  // namespace longspan
