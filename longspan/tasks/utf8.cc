#include "longspan/tasks/utf8.h"

namespace longspan {

std::uint32_t next_character(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::uint32_t lead = byte(at);
  if (lead < 0x80) {
    ++at;
    return lead;
  }
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() - at < length) return kInvalidCharacter;
  std::uint32_t c = lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0U) != 0x80U) return kInvalidCharacter;
    c = (c << 6U) | (byte(at + i) & 0x3FU);
  }
  if (utf8_length(c) != length || is_surrogate(c) || c > kLastCodePoint) return kInvalidCharacter;
  at += length;
  return c;
}

void append_utf8(std::uint32_t c, std::string& text) {
  const std::size_t length = utf8_length(c);
  if (length == 1) {
    text += static_cast<char>(c);
    return;
  }
  const std::uint32_t lead = (0xF00U >> length) & 0xFFU;
  text += static_cast<char>(lead | (c >> (6 * (length - 1))));
  for (std::size_t i = length - 1; i-- > 0;) {
    text += static_cast<char>(0x80U | ((c >> (6 * i)) & 0x3FU));
  }
}

}  // namespace longspan
