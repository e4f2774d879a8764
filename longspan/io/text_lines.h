// A text file line by line, whatever its size; whoever reads it can say where something is wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "longspan/base/error.h"

namespace longspan {

struct TextLine {
  std::string_view text;  // without its end
  std::size_t number = 0;
  std::uint64_t offset = 0;  // of its first byte in the file
  std::string_view who;
  const std::filesystem::path* path = nullptr;

  // Throws Error "[who] file.tsv:12: …" unless `holds`.
  template <class... Args>
  void require(bool holds, fmt::format_string<Args...> message, Args&&... args) const {
    if (!holds) fail(fmt::format(message, std::forward<Args>(args)...));
  }
  // "[who] file.tsv:12"
  std::string place() const;
  [[noreturn]] void fail(const std::string& message) const;
};

// No line of a data set is longer.
inline constexpr std::size_t kLongestLine = std::size_t{256} << 20U;

// Calls `each` for every line that is not empty; a byte order mark before the first is none of it.
// Throws Error, "[who] …", where there is none.
void read_lines(std::string_view who, const std::filesystem::path& path,
                const std::function<void(const TextLine&)>& each);

// With the letters of ASCII in lower case, for words that people write either way.
std::string lower_case(std::string_view text);

}  // namespace longspan
