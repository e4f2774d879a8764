#include "longspan/base/config.h"

#include <algorithm>
#include <numeric>

namespace longspan {

namespace {

// Insertions, deletions, substitutions and exchanges of neighbours that make a word another.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);  // the row before the last
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({substitute, last[j] + 1, row[j - 1] + 1});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

// Nobody mistypes a word at such length; and distances are products of the lengths.
constexpr std::size_t kLongestWord = 64;

}  // namespace

std::string_view nearest(std::string_view name, const std::vector<std::string_view>& known) {
  const auto it = std::ranges::min_element(
      known, {}, [&](std::string_view k) { return edit_distance(name, k); });
  return it == known.end() ? std::string_view{} : *it;
}

std::string_view similar(std::string_view name, const std::vector<std::string_view>& known) {
  if (name.empty() || name.size() > kLongestWord) return {};
  const std::string_view found = nearest(name, known);
  if (edit_distance(name, found) <= std::min(1 + name.size() / 5, name.size() - 1)) return found;
  // An abbreviation, or a name with more behind it.
  constexpr std::size_t kTelling = 3;
  for (const std::string_view k : known) {
    const std::size_t common = std::min(k.size(), name.size());
    if (common >= kTelling && k.substr(0, common) == name.substr(0, common)) return k;
  }
  return {};
}

void throw_unknown(std::string_view who, std::string_view what, std::string_view name,
                   const std::vector<std::string_view>& known) {
  std::string list;
  for (const auto k : known) {
    if (!list.empty()) list += ", ";
    list += k;
  }
  if (known.empty()) throw Error(fmt::format("[{}] unknown {} '{}'; it has none", who, what, name));
  const std::string_view meant = similar(name, known);
  throw Error(meant.empty()
                  ? fmt::format("[{}] unknown {} '{}'; need one of {}", who, what, name, list)
                  : fmt::format("[{}] unknown {} '{}'; did you mean '{}'? Known: {}", who, what,
                                name, meant, list));
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
    const std::string_view key = item.substr(0, equals);
    require(
        std::ranges::find(pairs, key, &std::pair<std::string, std::string>::first) == pairs.end(),
        "[{}] option '{}' is given twice; need it once", who, key);
    pairs.emplace_back(key, item.substr(equals + 1));
  }
  return pairs;
}

}  // namespace detail
}  // namespace longspan
