// The tokens of a text file, read from it when they are asked for: it may be larger than memory.
//
//   bytes        token i is the byte i
//   characters   of every 1024th it is known where it begins; those between are decoded from there.
//                Where all are of one byte, token i is the byte i again
//
// What is kept is under a hundredth of the file. It is read into buffers and not mapped: of a file
// that shrinks while it is used, reading says so in a sentence, and a mapping ends the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/io/file.h"
#include "longspan/tasks/vocabulary.h"

namespace longspan {

class TokenFile {
 public:
  // `kind` is "bytes" or "characters"; the characters are those of the whole file.
  TokenFile(const std::filesystem::path& path, std::string_view kind);
  // Throws Error at a character that the vocabulary does not have.
  TokenFile(const std::filesystem::path& path, Vocabulary vocabulary);

  const std::string& name() const { return name_; }
  const Vocabulary& vocabulary() const { return vocabulary_; }
  std::size_t size() const { return size_; }

  // Fills `into` from position `first`.
  void copy(std::size_t first, std::span<std::int32_t> into) const;
  // The same, and `next`, of as many tokens, from the position after.
  void copy_with_next(std::size_t first, std::span<std::int32_t> into,
                      std::span<std::int32_t> next) const;

 private:
  template <class See>
  void scan(std::uint64_t from, std::span<char> buffer, See see) const;
  template <class See>
  void read(std::size_t first, std::size_t count, See see) const;
  template <class See>
  void index_characters(See see);

  std::string name_;
  File file_;
  Vocabulary vocabulary_;
  std::size_t size_ = 0;
  std::vector<std::uint64_t> starts_;  // where every 1024th character begins
};

}  // namespace longspan
