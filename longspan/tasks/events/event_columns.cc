#include "longspan/tasks/events/event_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "longspan/base/error.h"
#include "longspan/base/number.h"
#include "longspan/io/file.h"

namespace longspan {

namespace {

enum ColumnKind : std::size_t { kTimeColumn, kTypeColumn, kSequenceColumn };

constexpr std::array<std::string_view, 6> kTimeTitles = {"time",      "t",      "times",
                                                         "timestamp", "t_days", "time_since_start"};
constexpr std::array<std::string_view, 8> kTypeTitles = {
    "type", "m", "types", "mark", "mag", "magnitude", "event", "type_event"};
constexpr std::array<std::string_view, 8> kSequenceTitles = {
    "sequence", "sequence_id", "seq", "seq_id", "id", "user", "user_id", "name"};
// By kind.
constexpr std::array<std::span<const std::string_view>, 3> kColumnTitles = {
    kTimeTitles, kTypeTitles, kSequenceTitles};

std::optional<ColumnKind> kind_of(std::string_view title) {
  const std::string plain = lower_case(title);
  for (const ColumnKind kind : {kTimeColumn, kTypeColumn, kSequenceColumn}) {
    if (std::ranges::find(kColumnTitles[kind], plain) != kColumnTitles[kind].end()) return kind;
  }
  return std::nullopt;
}

// "time (or t, times)"
std::string titles_of(ColumnKind kind) {
  return fmt::format("{} (or {})", kColumnTitles[kind].front(),
                     fmt::join(kColumnTitles[kind].subspan(1), ", "));
}

}  // namespace

std::vector<std::string_view> comma_fields(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const std::size_t end = line.find(',');
    std::string_view field = line.substr(0, end);
    while (field.starts_with(' ')) field.remove_prefix(1);
    while (field.ends_with(' ')) field.remove_suffix(1);
    if (field.size() > 1 && field.starts_with('"') && field.ends_with('"')) {
      field = field.substr(1, field.size() - 2);
    }
    fields.push_back(field);
    if (end == std::string_view::npos) return fields;
    line.remove_prefix(end + 1);
  }
}

std::optional<double> plain_number(std::string_view text) {
  const bool unit = !text.empty() && (text.back() < '0' || text.back() > '9') && text.back() != '.';
  return unit ? std::nullopt : detail::decimal_from(text);
}

std::string event_titles_text() {
  return fmt::format("{}, and perhaps {} and {}", titles_of(kTimeColumn), titles_of(kTypeColumn),
                     titles_of(kSequenceColumn));
}

EventColumns::EventColumns(std::size_t columns) : count(columns), time(columns == 3 ? 1 : 0) {
  if (count == 3) sequence = 0;
  if (count >= 2) type = count - 1;
}

EventColumns EventColumns::titled(const TextLine& line, std::span<const std::string_view> titles) {
  std::array<std::optional<std::size_t>, 3> places;
  for (std::size_t i = 0; i < titles.size(); ++i) {
    const std::optional<ColumnKind> kind = kind_of(titles[i]);
    if (!kind) {
      line.fail(fmt::format("unknown title '{}'; need {}, each once", printable(titles[i]),
                            event_titles_text()));
    }
    std::optional<std::size_t>& place = places[*kind];
    if (place) {
      line.fail(fmt::format("the titles '{}' and '{}' say the same; need {}, each once",
                            titles[*place], titles[i], event_titles_text()));
    }
    place = i;
  }
  if (!places[kTimeColumn]) {
    line.fail(fmt::format("no title of times; need {}, each once", event_titles_text()));
  }
  EventColumns columns(titles.size());
  columns.time = *places[kTimeColumn];
  columns.type = places[kTypeColumn];
  columns.sequence = places[kSequenceColumn];
  return columns;
}

std::string EventColumns::text() const {
  std::vector<std::string_view> names(count);
  names[time] = "time";
  if (type) names[*type] = "type";
  if (sequence) names[*sequence] = "sequence";
  return fmt::format("{}", fmt::join(names, ","));
}

}  // namespace longspan
