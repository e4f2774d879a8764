// Fields of comma-separated values.
#pragma once

#include <fmt/core.h>

#include <optional>
#include <string>

namespace longspan {

// In quotes where it must be.
inline std::string csv_text(std::string text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  for (std::size_t i = 0; (i = text.find('"', i)) != std::string::npos; i += 2) {
    text.insert(i, "\"");
  }
  return "\"" + text + "\"";
}

// Nothing where it is not known.
inline std::string csv_number(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : "";
}

}  // namespace longspan
