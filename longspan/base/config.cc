#include "longspan/base/config.h"

#include <algorithm>
#include <numeric>

namespace longspan {

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substitute, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view nearest(std::string_view name, const std::vector<std::string_view>& known) {
  const auto it = std::ranges::min_element(
      known, {}, [&](std::string_view k) { return edit_distance(name, k); });
  return it == known.end() ? std::string_view{} : *it;
}

void throw_unknown(std::string_view who, std::string_view what, std::string_view name,
                   const std::vector<std::string_view>& known) {
  std::string list;
  for (const auto k : known) {
    if (!list.empty()) list += ", ";
    list += k;
  }
  if (known.empty()) throw Error(fmt::format("[{}] unknown {} '{}'; it has none", who, what, name));
  throw Error(fmt::format("[{}] unknown {} '{}'; did you mean '{}'? Known: {}", who, what, name,
                          nearest(name, known), list));
}

std::vector<std::string> split_list(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

std::int64_t parse_integer(std::string_view who, std::string_view key, std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc{} && end == text.data() + text.size() && !text.empty(),
          "[{}] {} is '{}'; need a whole number", who, key, text);
  return value;
}

double parse_number(std::string_view who, std::string_view key, std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc{} && end == text.data() + text.size() && !text.empty(),
          "[{}] {} is '{}'; need a number", who, key, text);
  return value;
}

bool parse_switch(std::string_view who, std::string_view key, std::string_view text) {
  if (text == "true" || text == "on" || text == "1" || text == "yes") return true;
  require(text == "false" || text == "off" || text == "0" || text == "no",
          "[{}] {} is '{}'; need true or false", who, key, text);
  return false;
}

namespace detail {

std::vector<std::pair<std::string, std::string>> split_options(std::string_view who,
                                                               std::string_view options) {
  std::vector<std::pair<std::string, std::string>> pairs;
  while (!options.empty()) {
    const std::size_t comma = std::min(options.find(','), options.size());
    const std::string_view item = options.substr(0, comma);
    options.remove_prefix(std::min(comma + 1, options.size()));
    const std::size_t equals = item.find('=');
    require(equals != std::string_view::npos && equals > 0, "[{}] option '{}'; need key=value", who,
            item);
    pairs.emplace_back(item.substr(0, equals), item.substr(equals + 1));
  }
  return pairs;
}

}  // namespace detail
}  // namespace longspan
