// Examples that stay in their files, which together may be larger than memory: what is kept of one is
// where it is, and a batch reads it again.
//
// They are read and not mapped: of a file that shrinks while it is used, reading says so in a
// sentence, and a mapping ends the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/io/file.h"

namespace longspan {

struct FilePlace {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  std::uint32_t file = 0;  // its number
};

class ExampleFiles {
 public:
  // Puts the tokens of an example behind those of `tokens`; false where it is no example.
  using Parse = bool (*)(std::string_view bytes, std::vector<std::uint8_t>& tokens);

  explicit ExampleFiles(std::string_view who) : who_(who) {}

  // The number of a file, or of one kind of the examples in it.
  std::uint32_t add(std::filesystem::path path, Parse parse);

  // The first `count` tokens of what lies there. Throws Error where it has changed.
  void read(const FilePlace& place, std::size_t count, std::vector<std::uint8_t>& tokens);

 private:
  struct Source {
    std::filesystem::path path;
    Parse parse;
  };

  std::string who_;
  std::vector<Source> sources_;
  std::optional<File> open_;  // the one that was read last
  std::uint32_t opened_ = 0;
  std::string held_;
};

// Tokens that are the bytes.
bool parse_bytes_as_tokens(std::string_view bytes, std::vector<std::uint8_t>& tokens);

}  // namespace longspan
