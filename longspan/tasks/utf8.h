// UTF-8 (RFC 3629), a character at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace longspan {

inline constexpr std::uint32_t kLastCodePoint = 0x10FFFF;
inline constexpr std::uint32_t kInvalidCharacter = 0xFFFFFFFF;
inline constexpr std::size_t kLongestCharacter = 4;  // bytes

constexpr bool is_surrogate(std::uint32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

constexpr std::size_t utf8_length(std::uint32_t c) {
  return 1 + (c >= 0x80 ? 1 : 0) + (c >= 0x800 ? 1 : 0) + (c >= 0x10000 ? 1 : 0);
}

// The character that begins at `at`, which moves past it; kInvalidCharacter for what is forbidden:
// stray or missing continuations, longer forms than needed, surrogates, beyond U+10FFFF.
std::uint32_t next_character(std::string_view text, std::size_t& at);

void append_utf8(std::uint32_t c, std::string& text);

}  // namespace longspan
