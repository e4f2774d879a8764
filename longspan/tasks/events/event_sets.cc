#include "longspan/tasks/events/event_sets.h"

#include <algorithm>

#include "longspan/base/error.h"
#include "longspan/base/number.h"
#include "longspan/tasks/classes/split_files.h"
#include "longspan/tasks/events/event_columns.h"
#include "longspan/tasks/events/event_file.h"

namespace longspan {

namespace {

constexpr std::string_view kWho = "events";

void divide_by_time(const EventSequence& whole, EventSets& sets) {
  const std::size_t count = whole.times.size();
  const auto part = [&](std::size_t from, std::size_t to, std::vector<EventSequence>& into) {
    const auto begin = static_cast<std::ptrdiff_t>(from == 0 ? 0 : from - 1);
    const auto end = static_cast<std::ptrdiff_t>(to);
    if (to <= from) return;
    into.push_back({{whole.times.begin() + begin, whole.times.begin() + end},
                    {whole.types.begin() + begin, whole.types.begin() + end}});
  };
  part(0, count * 7 / 10, sets.training);
  part(count * 7 / 10, count * 8 / 10, sets.validation);
  part(count * 8 / 10, count, sets.test);
}

}  // namespace

std::vector<double> edges_of(std::string_view text) {
  std::vector<double> edges;
  for (std::string_view left = text; !text.empty();) {
    const std::size_t end = std::min(left.find(','), left.size());
    const auto edge = plain_number(left.substr(0, end));
    require(edge && (edges.empty() || *edge > edges.back()),
            "[{}] --edges is '{}'; need rising numbers with commas between", kWho, text);
    edges.push_back(*edge);
    if (end == left.size()) break;
    left.remove_prefix(end + 1);
  }
  return edges;
}

EventSets read_event_sets(const std::string& data, Division division,
                          std::span<const double> edges) {
  const SplitFiles files = split_files(kWho, data);
  EventSets sets;
  std::vector<EventSequence> first = read_events(kWho, files.training, edges);
  if (!files.one) {
    require(division != Division::kTime,
            "[{}] --division time of {}, which is divided; need one file", kWho, data);
    sets.training = std::move(first);
    if (files.validation) sets.validation = read_events(kWho, *files.validation, edges);
    if (files.test) sets.test = read_events(kWho, *files.test, edges);
    return sets;
  }
  constexpr std::size_t kFew = 10;
  const bool few = first.size() < kFew && std::ranges::any_of(first, [](const EventSequence& e) {
                     return e.times.size() >= kFew;
                   });
  const bool by_time = division == Division::kTime || (division == Division::kAuto && few);
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (by_time) {
      divide_by_time(first[i], sets);
      continue;
    }
    auto& to = i % 10 == 8 ? sets.validation : i % 10 == 9 ? sets.test : sets.training;
    to.push_back(std::move(first[i]));
  }
  return sets;
}

}  // namespace longspan
