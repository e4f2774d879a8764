#include "longspan/tasks/events/event_file.h"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "longspan/io/text_lines.h"

namespace longspan {

namespace {

using nlohmann::json;

struct EventKeys {
  const char* times;
  const char* types;
};
constexpr std::array<EventKeys, 3> kShapes = {
    {{"t", "m"}, {"times", "types"}, {"time_since_start", "type_event"}}};

EventSequence sequence_of(const TextLine& line) {
  const json value = json::parse(line.text, nullptr, /*allow_exceptions=*/false);
  line.require(value.is_object(), "no object of JSON; need {{\"t\": […], \"m\": […]}}");
  const EventKeys* shape = nullptr;
  for (const EventKeys& names : kShapes) {
    if (value.contains(names.times) && value.contains(names.types)) shape = &names;
  }
  line.require(shape != nullptr, "no times and types; need \"t\" and \"m\"");
  const json& times = value.at(shape->times);
  const json& types = value.at(shape->types);
  line.require(
      times.is_array() && types.is_array() && times.size() == types.size() && !times.empty(),
      "'{}' and '{}'; need two lists of one length, of one event at least", shape->times,
      shape->types);
  EventSequence events;
  for (std::size_t i = 0; i < times.size(); ++i) {
    constexpr double kFarthest = 1e15;
    line.require(times[i].is_number() && std::abs(times[i].get<double>()) <= kFarthest,
                 "time {} is no number from -{:g} to {:g}; need one", i, kFarthest, kFarthest);
    events.times.push_back(times[i].get<double>());
    line.require(i == 0 || events.times[i] >= events.times[i - 1],
                 "time {} is {} after {}; need times that do not go backwards", i, events.times[i],
                 i == 0 ? 0.0 : events.times[i - 1]);
    const bool known = types[i].is_number_integer() && types[i].get<std::int64_t>() >= 0 &&
                       types[i].get<std::int64_t>() < kMostEventTypes;
    line.require(known, "type {} of an event is {}; need a whole number from 0 to {}", i,
                 types[i].dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 40),
                 kMostEventTypes - 1);
    events.types.push_back(types[i].get<std::int32_t>());
  }
  return events;
}

}  // namespace

std::vector<EventSequence> read_events(std::string_view who, const std::filesystem::path& path) {
  std::vector<EventSequence> all;
  read_lines(who, path, [&](const TextLine& line) { all.push_back(sequence_of(line)); });
  return all;
}

}  // namespace longspan
