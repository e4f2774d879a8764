// Events that a model goes on with.
#include <fmt/core.h>

#include "longspan/base/error.h"
#include "longspan/tasks/events/event_file.h"
#include "longspan/tasks/events/events.h"
#include "longspan/tasks/events/thinning.h"

namespace longspan {

TimedTokens EventsTask::begin(std::string_view prompt) const {
  require(!published(), "[events] a model of --compat thp has no intensities; need --compat none");
  TimedTokens all;
  if (window() > 0.0) all = {{static_cast<std::int32_t>(types_)}, {0.0}};
  if (prompt.find_first_not_of(" \n\t") == std::string_view::npos) {
    if (!all.tokens.empty()) return all;
    // Nothing foretells a first event.
    require(!training_.sequences.empty(),
            "[events] {} has no events to train on, and so none to begin with; need --prompt",
            config_.source.data);
    const EventSequence& known = training_.sequences.front();
    return {{known.types.front()}, {0.0}};
  }
  const EventSequence events = event_sequence_from(kName, prompt);
  for (std::size_t i = 0; i < events.times.size(); ++i) {
    require(static_cast<std::size_t>(events.types[i]) < types_,
            "[events] the sequence: type {} of an event is {}; need 0 to {}", i, events.types[i],
            types_ - 1);
    require(window() == 0.0 || (events.times[i] >= 0.0 && events.times[i] <= window()),
            "[events] an event at {}; need all within the window of 0 to {}", events.times[i],
            window());
    all.tokens.push_back(events.types[i]);
    all.times.push_back(events.times[i] / unit_);
  }
  return all;
}

std::optional<TimedToken> EventsTask::draw_next(std::span<const float> scores, double last,
                                                RandomKey key) const {
  constexpr double kEver = 1e6;  // mean gaps behind which nothing is waited for
  const double left = window() > 0.0 ? window() / unit_ - last : kEver;
  const auto next = draw_event(Intensities(config_.decay, scores), key, left);
  if (!next) return std::nullopt;
  return TimedToken{next->type, last + next->wait};
}

std::string EventsTask::tell(const TimedTokens& all) const {
  std::string times;
  std::string types;
  for (std::size_t i = 0; i < all.tokens.size(); ++i) {
    if (static_cast<std::size_t>(all.tokens[i]) == types_) continue;  // before all events
    const char* const comma = times.empty() ? "" : ", ";
    times += fmt::format("{}{:.15g}", comma, all.times[i] * unit_);
    types += fmt::format("{}{}", comma, all.tokens[i]);
  }
  return fmt::format("{{\"t\": [{}], \"m\": [{}]}}", times, types);
}

}  // namespace longspan
