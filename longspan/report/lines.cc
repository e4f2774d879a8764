#include "longspan/report/lines.h"

#include <algorithm>

namespace longspan {

namespace {

bool begins_letter(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }

// A mark that stands over the letter before it.
bool is_mark(std::string_view letter) {
  return letter.size() == 2 && letter >= "\u0300" && letter <= "\u036F";
}

}  // namespace

std::size_t size_of_letter(std::string_view text) {
  std::size_t size = 1;
  while (size < text.size() && !begins_letter(text[size])) ++size;
  return size;
}

std::size_t text_columns(std::string_view text) {
  std::size_t columns = 0;
  while (!text.empty()) {
    const std::string_view letter = text.substr(0, size_of_letter(text));
    columns += is_mark(letter) ? 0 : 1;
    text.remove_prefix(letter.size());
  }
  return columns;
}

std::string clipped(std::string_view text, std::size_t columns) {
  if (text_columns(text) <= columns) return std::string(text);
  std::size_t end = 0;
  for (std::size_t seen = 0; end < text.size(); ++end) {
    if (begins_letter(text[end]) && ++seen >= columns) break;
  }
  return std::string(text.substr(0, end)) + "…";
}

std::string broken(std::string_view text, std::size_t width, std::size_t indent, std::size_t used) {
  std::string out;
  bool first = true;  // of its line
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t begin = std::min(text.find_first_not_of(' ', at), text.size());
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view spaces = text.substr(at, begin - at);
    const std::string_view word = text.substr(begin, end - begin);
    at = end;
    if (word.empty()) break;
    if (!first && used + spaces.size() + text_columns(word) > width) {
      out += '\n' + std::string(indent, ' ');
      used = indent;
    } else {
      out += spaces;
      used += spaces.size();
    }
    out += word;
    used += text_columns(word);
    first = false;
  }
  return out;
}

std::string wrapped(std::string_view text, std::size_t columns) {
  const std::size_t margin = std::min(text.find_first_not_of(' '), text.size());
  text.remove_prefix(margin);
  return std::string(margin, ' ') + broken(text, columns, margin, margin) + "\n";
}

}  // namespace longspan
