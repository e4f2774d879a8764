#include "longspan/tasks/vocabulary.h"

#include <algorithm>
#include <utility>

#include "longspan/base/config.h"
#include "longspan/base/error.h"

namespace longspan {

namespace {

constexpr std::string_view kWho = "vocabulary";
constexpr std::uint32_t kLastCodePoint = 0x10FFFF;
constexpr std::uint32_t kInvalid = 0xFFFFFFFF;

constexpr bool is_surrogate(std::uint32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

constexpr std::size_t utf8_length(std::uint32_t c) {
  return 1 + (c >= 0x80 ? 1 : 0) + (c >= 0x800 ? 1 : 0) + (c >= 0x10000 ? 1 : 0);
}

// The character that begins at `at`, which moves past it; kInvalid for what RFC 3629 forbids: stray
// or missing continuations, longer forms than needed, surrogates, beyond U+10FFFF.
std::uint32_t next_character(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::uint32_t lead = byte(at);
  if (lead < 0x80) return text[at++];
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() - at < length) return kInvalid;
  std::uint32_t c = lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0U) != 0x80U) return kInvalid;
    c = (c << 6U) | (byte(at + i) & 0x3FU);
  }
  if (utf8_length(c) != length || is_surrogate(c) || c > kLastCodePoint) return kInvalid;
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

template <class See>
void for_each_character(std::string_view source, std::string_view text, See see) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    const std::uint32_t c = next_character(text, at);
    require(c != kInvalid,
            "[{}] {} is not UTF-8 at byte {}; need UTF-8 text, or the vocabulary bytes", kWho,
            source, start);
    see(c, start);
  }
}

}  // namespace

Vocabulary Vocabulary::bytes() { return {}; }

Vocabulary Vocabulary::characters_of(std::string_view source, std::string_view text) {
  std::vector<bool> present(kLastCodePoint + 1);
  for_each_character(source, text, [&](std::uint32_t c, std::size_t) { present[c] = true; });
  std::vector<std::uint32_t> code_points;
  for (std::uint32_t c = 0; c <= kLastCodePoint; ++c) {
    if (present[c]) code_points.push_back(c);
  }
  require(!code_points.empty(), "[{}] {} is empty; need at least one character", kWho, source);
  return characters(std::move(code_points));
}

Vocabulary Vocabulary::characters(std::vector<std::uint32_t> code_points) {
  require(!code_points.empty(), "[{}] got no characters; need at least one", kWho);
  for (std::size_t i = 0; i < code_points.size(); ++i) {
    const std::uint32_t c = code_points[i];
    require(c <= kLastCodePoint && !is_surrogate(c), "[{}] {} is not a Unicode code point", kWho,
            c);
    require(i == 0 || code_points[i - 1] < c,
            "[{}] code point {} follows {}; need them in ascending order", kWho, c,
            code_points[i == 0 ? 0 : i - 1]);
  }
  Vocabulary vocabulary;
  vocabulary.tokens_.assign(code_points.back() + 1, -1);
  for (std::size_t i = 0; i < code_points.size(); ++i) {
    vocabulary.tokens_[code_points[i]] = static_cast<std::int32_t>(i);
  }
  vocabulary.code_points_ = std::move(code_points);
  return vocabulary;
}

Vocabulary Vocabulary::make(std::string_view kind, std::string_view source, std::string_view text) {
  if (kind == "bytes") return bytes();
  if (kind == "characters") return characters_of(source, text);
  throw_unknown(kWho, "vocabulary", kind, {"bytes", "characters"});
}

std::vector<std::int32_t> Vocabulary::encode(std::string_view source, std::string_view text) const {
  std::vector<std::int32_t> tokens;
  if (code_points_.empty()) {
    tokens.resize(text.size());
    std::ranges::transform(text, tokens.begin(),
                           [](char c) { return static_cast<unsigned char>(c); });
    return tokens;
  }
  tokens.reserve(text.size());
  for_each_character(source, text, [&](std::uint32_t c, std::size_t at) {
    const std::int32_t token = c < tokens_.size() ? tokens_[c] : -1;
    require(token >= 0,
            "[{}] {} has the character U+{:04X} at byte {}; the {} known do not include it", kWho,
            source, c, at, code_points_.size());
    tokens.push_back(token);
  });
  return tokens;
}

std::uint32_t Vocabulary::checked_code_point(std::int32_t token) const {
  require(token >= 0 && static_cast<std::size_t>(token) < size(),
          "[{}] got the token {}; need 0 to {}", kWho, token, size() - 1);
  return code_points_.empty() ? static_cast<std::uint32_t>(token)
                              : code_points_[static_cast<std::size_t>(token)];
}

std::string Vocabulary::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  text.reserve(tokens.size());
  for (const std::int32_t token : tokens) {
    const std::uint32_t c = checked_code_point(token);
    if (code_points_.empty()) {
      text += static_cast<char>(c);
    } else {
      append_utf8(c, text);
    }
  }
  return text;
}

std::size_t Vocabulary::count_bytes(std::span<const std::int32_t> tokens) const {
  if (code_points_.empty()) return tokens.size();
  std::size_t count = 0;
  for (const std::int32_t token : tokens) count += utf8_length(checked_code_point(token));
  return count;
}

}  // namespace longspan
