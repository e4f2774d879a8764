#include "longspan/tasks/vocabulary.h"

#include <algorithm>
#include <utility>

#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "longspan/tasks/utf8.h"

namespace longspan {

namespace {

constexpr std::string_view kWho = "vocabulary";

template <class See>
void for_each_character(std::string_view source, std::string_view text, See see) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    const std::uint32_t c = next_character(text, at);
    require_character(source, c, start);
    see(c, start);
  }
}

}  // namespace

Vocabulary Vocabulary::bytes() { return {}; }

void require_character(std::string_view source, std::uint32_t c, std::size_t at) {
  require(c != kInvalidCharacter,
          "[{}] {} is not UTF-8 at byte {}; need UTF-8 text, or the vocabulary bytes", kWho, source,
          at);
}

CharacterSet::CharacterSet() : present_(kLastCodePoint + 1) {}

Vocabulary CharacterSet::vocabulary(std::string_view source) const {
  std::vector<std::uint32_t> code_points;
  for (std::uint32_t c = 0; c <= kLastCodePoint; ++c) {
    if (present_[c]) code_points.push_back(c);
  }
  require(!code_points.empty(), "[{}] {} is empty; need at least one character", kWho, source);
  return Vocabulary::characters(std::move(code_points));
}

Vocabulary Vocabulary::characters_of(std::string_view source, std::string_view text) {
  CharacterSet all;
  for_each_character(source, text, [&](std::uint32_t c, std::size_t) { all.add(c); });
  return all.vocabulary(source);
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
    tokens.push_back(token_of(source, c, at));
  });
  return tokens;
}

std::int32_t Vocabulary::token_of(std::string_view source, std::uint32_t c, std::size_t at) const {
  require(has(c), "[{}] {} has the character U+{:04X} at byte {}; the {} known do not include it",
          kWho, source, c, at, code_points_.size());
  return tokens_[c];
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
