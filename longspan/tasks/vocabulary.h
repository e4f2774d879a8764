// Vocabulary: text ↔ tokens, without a data file once its code points are known.
//
//   bytes        token t is the byte t; 256 tokens, any file
//   characters   token t is the t-th of the sorted distinct Unicode characters of the training text
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

class Vocabulary {
 public:
  static Vocabulary bytes();
  // The distinct characters of `text`; `source` names it in messages. Throws Error where it is not
  // UTF-8.
  static Vocabulary characters_of(std::string_view source, std::string_view text);
  // From what code_points() gave; they must ascend.
  static Vocabulary characters(std::vector<std::uint32_t> code_points);
  // "bytes" or "characters"; the latter are those of `text`.
  static Vocabulary make(std::string_view kind, std::string_view source, std::string_view text);

  std::string_view kind() const { return code_points_.empty() ? "bytes" : "characters"; }
  std::size_t size() const { return code_points_.empty() ? 256 : code_points_.size(); }
  // What to store in config.json; empty for bytes.
  const std::vector<std::uint32_t>& code_points() const { return code_points_; }

  // Throws Error at a character that the vocabulary does not have.
  std::vector<std::int32_t> encode(std::string_view source, std::string_view text) const;
  // Of a vocabulary of characters.
  bool has(std::uint32_t c) const { return c < tokens_.size() && tokens_[c] >= 0; }
  // The same: the token of the one at byte `at`. Throws Error where it has none.
  std::int32_t token_of(std::string_view source, std::uint32_t c, std::size_t at) const;
  // For bytes the result need not be UTF-8.
  std::string decode(std::span<const std::int32_t> tokens) const;
  // decode(tokens).size(), for bits per byte.
  std::size_t count_bytes(std::span<const std::int32_t> tokens) const;

  bool operator==(const Vocabulary& other) const { return code_points_ == other.code_points_; }

 private:
  std::uint32_t checked_code_point(std::int32_t token) const;

  std::vector<std::uint32_t> code_points_;  // token → code point
  std::vector<std::int32_t> tokens_;        // code point → token, or -1
};

// Throws Error where the character at byte `at` is kInvalidCharacter (utf8.h).
void require_character(std::string_view source, std::uint32_t c, std::size_t at);

// The distinct characters of a text that is seen one by one.
class CharacterSet {
 public:
  CharacterSet();
  void add(std::uint32_t c) { present_[c] = true; }
  // Throws Error where there is none.
  Vocabulary vocabulary(std::string_view source) const;

 private:
  std::vector<bool> present_;
};

}  // namespace longspan
