#include "longspan/tasks/events/event_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "longspan/base/error.h"
#include "longspan/io/file.h"
#include "longspan/io/json_file.h"
#include "longspan/io/text_lines.h"
#include "longspan/tasks/events/event_columns.h"

namespace longspan {

namespace {

using nlohmann::json;

struct EventKeys {
  const char* times;
  const char* types;
};
constexpr std::array<EventKeys, 4> kShapes = {
    {{"t", "m"}, {"times", "types"}, {"time_since_start", "type_event"}, {"time", "type"}}};

// Where something is read, and what its types are.
struct EventPlace {
  std::string opening;  // "[events] a.csv:3"
  std::span<const double> edges;

  template <class... Args>
  void require(bool holds, fmt::format_string<Args...> message, Args&&... args) const {
    if (!holds) {
      throw Error(opening + ": " + fmt::format(message, std::forward<Args>(args)...));
    }
  }
};

EventPlace place_of(const TextLine& line, std::span<const double> edges) {
  return {line.place(), edges};
}

// A time and a type, as a file has them: none where it is no number.
struct RawEvent {
  std::optional<double> time;
  std::optional<double> type;
  std::string time_text;  // for messages
  std::string type_text;
};

void add_event(const EventPlace& place, const RawEvent& raw, EventSequence& events) {
  constexpr double kFarthest = 1e15;
  const std::size_t i = events.times.size();
  place.require(raw.time && std::abs(*raw.time) <= kFarthest,
                "the time of event {} is {}; need a number from -{:g} to {:g}", i, raw.time_text,
                kFarthest, kFarthest);
  place.require(i == 0 || *raw.time >= events.times.back(),
                "the time of event {} is {} after {}; need times that do not go backwards", i,
                *raw.time, i == 0 ? 0.0 : events.times.back());
  std::int32_t type = 0;
  if (place.edges.empty()) {
    const bool known = raw.type && *raw.type >= 0 && *raw.type < kMostEventTypes &&
                       *raw.type == std::floor(*raw.type);
    place.require(known, "the type of event {} is {}; need a whole number from 0 to {}{}", i,
                  raw.type_text, kMostEventTypes - 1,
                  raw.type ? ", or --edges between numbers" : "");
    type = static_cast<std::int32_t>(*raw.type);
  } else {
    place.require(raw.type.has_value(), "the type of event {} is {}; need a number between edges",
                  i, raw.type_text);
    type = static_cast<std::int32_t>(std::ranges::upper_bound(place.edges, *raw.type) -
                                     place.edges.begin());
  }
  events.times.push_back(*raw.time);
  events.types.push_back(type);
}

RawEvent raw_event(const json& time, const json& type) {
  const auto number = [](const json& value) {
    return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
  };
  const auto text = [](const json& value) {
    return value.dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 40);
  };
  return {number(time), number(type), text(time), text(type)};
}

const EventKeys* keys_in(const json& value) {
  const auto* const found = std::ranges::find_if(kShapes, [&](const EventKeys& keys) {
    return value.is_object() && value.contains(keys.times) && value.contains(keys.types);
  });
  return found == kShapes.end() ? nullptr : found;
}

EventSequence by_lists(const EventPlace& place, const json& value) {
  const EventKeys* const keys = keys_in(value);
  place.require(keys != nullptr, "no times and types; need \"t\" and \"m\"");
  const json& times = value.at(keys->times);
  const json& types = value.at(keys->types);
  place.require(
      times.is_array() && types.is_array() && times.size() == types.size() && !times.empty(),
      "'{}' and '{}'; need two lists of one length, of one event at least", keys->times,
      keys->types);
  EventSequence events;
  for (std::size_t i = 0; i < times.size(); ++i) {
    add_event(place, raw_event(times[i], types[i]), events);
  }
  return events;
}

EventSequence by_events(const EventPlace& place, const json& value) {
  place.require(!value.empty(), "a list of no events; need one at least");
  EventSequence events;
  for (const json& event : value) {
    const EventKeys* const keys = keys_in(event);
    place.require(keys != nullptr, "event {} has no time and type; need {} and {}",
                  events.times.size(), "\"time_since_start\"", "\"type_event\"");
    add_event(place, raw_event(event.at(keys->times), event.at(keys->types)), events);
  }
  return events;
}

EventSequence sequence_of(const EventPlace& place, const json& value) {
  place.require(value.is_object() || value.is_array(),
                "not a JSON object; need {{\"t\": […], \"m\": […]}}");
  return value.is_array() ? by_events(place, value) : by_lists(place, value);
}

std::vector<EventSequence> of_document(std::string_view who, const std::filesystem::path& path,
                                       std::span<const double> edges) {
  const json document =
      parse_json(fmt::format("[{}] {}", who, path.string()), read_file(who, path, kMostData));
  require(!document.empty(), "[{}] {} is an empty list; need a sequence at least", who,
          path.string());
  std::vector<EventSequence> all;
  for (const json& value : document) {
    const EventPlace place{fmt::format("[{}] {}: sequence {}", who, path.string(), all.size()),
                           edges};
    all.push_back(sequence_of(place, value));
  }
  return all;
}

std::vector<EventSequence> of_lines(std::string_view who, const std::filesystem::path& path,
                                    std::span<const double> edges) {
  std::vector<EventSequence> all;
  read_lines(who, path, [&](const TextLine& line) {
    const json value = json::parse(line.text, nullptr, /*allow_exceptions=*/false);
    refuse_repeated_keys(line.place(), line.text);
    all.push_back(sequence_of(place_of(line, edges), value));
  });
  return all;
}

std::vector<EventSequence> of_table(std::string_view who, const std::filesystem::path& path,
                                    std::span<const double> edges) {
  std::vector<EventSequence> all;
  std::map<std::string, std::size_t, std::less<>> places;  // of sequences, by name
  std::optional<EventColumns> columns;
  read_lines(who, path, [&](const TextLine& line) {
    const EventPlace place = place_of(line, edges);
    const std::vector<std::string_view> fields = comma_fields(line.text);
    constexpr std::size_t kMostFields = 3;
    if (!columns) {
      place.require(fields.size() <= kMostFields, "{} fields; need time,type or sequence,time,type",
                    fields.size());
      const auto is_number = [](std::string_view field) { return plain_number(field).has_value(); };
      const bool titled = std::ranges::none_of(fields, is_number);
      columns = titled ? EventColumns::titled(line, fields) : EventColumns(fields.size());
      if (titled) return;
    }
    if (fields.size() != columns->count) {
      place.require(false, "{} fields; need {}, as above", fields.size(), columns->text());
    }
    const std::string_view time = fields[columns->time];
    const std::string_view type = columns->type ? fields[*columns->type] : "0";
    const std::string_view name = columns->sequence ? fields[*columns->sequence] : "";
    const auto [found, fresh] = places.try_emplace(std::string(name), all.size());
    if (fresh) all.emplace_back();
    const auto shown = [](std::string_view field) { return fmt::format("'{}'", printable(field)); };
    add_event(place, {plain_number(time), plain_number(type), shown(time), shown(type)},
              all[found->second]);
  });
  require(!all.empty(), "[{}] {} has a header alone; need events", who, path.string());
  return all;
}

bool is_document(std::string_view who, const std::filesystem::path& path) {
  const File file(who, path);
  std::byte first{};
  if (path.extension() != ".json" || file.size() == 0) return false;
  file.read_at(0, {&first, 1});
  return first == std::byte{'['};
}

}  // namespace

std::vector<EventSequence> read_events(std::string_view who, const std::filesystem::path& path,
                                       std::span<const double> edges) {
  if (path.extension() == ".csv") return of_table(who, path, edges);
  return is_document(who, path) ? of_document(who, path, edges) : of_lines(who, path, edges);
}

EventSequence event_sequence_from(std::string_view who, std::string_view text) {
  return sequence_of({fmt::format("[{}] the sequence", who), {}},
                     json::parse(text, nullptr, /*allow_exceptions=*/false));
}

}  // namespace longspan
