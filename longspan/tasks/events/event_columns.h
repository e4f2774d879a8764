// Which column of a table of events is what. A first line of titles, which has no number, says so;
// without one they are sequence,time,type or time,type or time.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/io/text_lines.h"

namespace longspan {

// The fields of a line, without the blanks and the quotation marks around them.
std::vector<std::string_view> comma_fields(std::string_view line);

// A decimal without a unit: in data 5k is no number.
std::optional<double> plain_number(std::string_view text);

// "time (or t, …), …", for messages and documentation.
std::string event_titles_text();

struct EventColumns {
  std::size_t count = 0;
  std::size_t time = 0;
  std::optional<std::size_t> sequence, type;  // nothing: one sequence, one type

  // Of lines below no titles.
  explicit EventColumns(std::size_t columns);
  // As titles say: a time, and perhaps a type and a sequence, each once. Throws Error, by `line`,
  // for other ones.
  static EventColumns titled(const TextLine& line, std::span<const std::string_view> titles);
  // "time,type", as the first line has them.
  std::string text() const;
};

}  // namespace longspan
