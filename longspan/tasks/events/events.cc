#include "longspan/tasks/events/events.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "longspan/base/error.h"
#include "longspan/base/number.h"
#include "longspan/base/published_hawkes.h"
#include "longspan/io/checksum.h"
#include "longspan/io/file.h"
#include "longspan/tasks/events/event_file.h"
#include "longspan/tasks/task_options.h"

namespace longspan {

namespace {

constexpr double kDrawnWindow = 200.0;

std::string checksum_of(const EventSets& all) {
  Checksum checksum;
  for (const auto* set : {&all.training, &all.validation, &all.test}) {
    for (const EventSequence& events : *set) {
      checksum.add(std::as_bytes(std::span(events.times)));
      checksum.add(std::as_bytes(std::span(events.types)));
    }
  }
  return checksum.hex();
}

}  // namespace

EventsTask::EventsTask(Config config) : config_(std::move(config)) {
  check_numbers(kName, config_);
  require(config_.window == 0.0 || config_.division != Division::kTime,
          "[events] --window with --division time, whose parts begin later; need one of them");
  require(config_.window == 0.0 || !published(),
          "[events] --window with --compat thp, which knows none; need one of them");
  edges_ = edges_of(config_.edges);
}

TaskOptions EventsTask::options() const { return options_of(config_); }

std::string_view EventsTask::idle(std::string_view option) const {
  if (config_.source.drawn() && (option == "division" || option == "edges")) {
    return "events that are drawn; need --data";
  }
  if (published() && (option == "decay" || option == "integration")) {
    return "--compat thp, which has its own; need one of them";
  }
  return config_.source.idle(
      option, {"length", "window", "decay", "integration", "division", "edges", "compat"});
}

double EventsTask::window() const {
  const bool whole = config_.window == 0.0 && config_.source.drawn() && !published();
  return whole ? kDrawnWindow : config_.window;
}

EventSets EventsTask::read() const {
  if (!config_.source.drawn()) {
    // Parts of a sequence do not begin with its window.
    const bool whole = config_.window > 0.0 && config_.division == Division::kAuto;
    const Division division =
        whole ? Division::kSequences : static_cast<Division>(config_.division);
    return read_event_sets(config_.source.data, division, edges_);
  }
  EventSets all;
  const RandomKey key = derive(config_.source.data_seed, kName);
  const HawkesProcess process = example_hawkes();
  const double until = config_.window == 0.0 ? kDrawnWindow : config_.window;
  std::uint64_t index = 0;
  const auto draw = [&](std::size_t count, std::vector<EventSequence>& to) {
    for (std::size_t i = 0; i < count; ++i) {
      to.push_back(process.simulate(derive(key, index++), until));
    }
  };
  draw(config_.source.held_out, all.test);
  draw(config_.source.held_out, all.validation);
  draw(config_.source.examples, all.training);
  return all;
}

void EventsTask::open() {
  EventSets all = read();
  checksum_ = config_.source.drawn() ? "" : checksum_of(all);
  const std::string source = config_.source.drawn() ? std::string(kName) : config_.source.data;
  training_ = {std::move(all.training), {}};
  validation_ = {std::move(all.validation), {}};
  test_ = {std::move(all.test), {}};
  baselines_.reset();
  beside_.clear();
  types_ = 0;
  for (const Set* set : sets(Split::kAll)) {
    for (const EventSequence& events : set->sequences) {
      for (const std::int32_t type : events.types) {
        types_ = std::max(types_, static_cast<std::size_t>(type) + 1);
      }
      const bool inside = events.times.empty() || window() == 0.0 ||
                          (events.times.front() >= 0.0 && events.times.back() <= window());
      require(inside, "[events] {}: an event at {}; need all within the window of 0 to {}", source,
              events.times.empty()         ? 0.0
              : events.times.front() < 0.0 ? events.times.front()
                                           : events.times.back(),
              window());
    }
  }
  if (known_) {
    require(types_ <= known_->types, "[events] {}: an event of type {}; the model knows 0 to {}",
            source, types_ - 1, known_->types - 1);
    types_ = known_->types;
    unit_ = known_->unit;
    longest_ = known_->longest;
  } else {
    measure_time();
  }
  for (Set* set : {&training_, &validation_, &test_}) {
    for (EventSequence& events : set->sequences) {
      for (double& time : events.times) time /= unit_;
      cut(events, set->pieces);
    }
  }
}

void EventsTask::measure_time() {
  double time = 0.0;
  double gaps = 0.0;
  longest_ = 0.0;
  for (const EventSequence& events : training_.sequences) {
    const Watched part = watched(events, window());
    time += part.end - part.begin;
    double last = part.begin;
    for (std::size_t i = part.first; i < events.times.size(); ++i) {
      longest_ = std::max(longest_, events.times[i] - last);
      last = events.times[i];
      gaps += 1.0;
    }
  }
  const std::string source = config_.source.drawn() ? std::string(kName) : config_.source.data;
  require(gaps > 0.0,
          "[events] {} has no events that follow others; need sequences of two at least", source);
  require(time > 0.0, "[events] {}: all events of a sequence have one time; need gaps", source);
  unit_ = time / gaps;
  longest_ /= unit_;
}

// Time is counted from the first token of a piece.
void EventsTask::cut(const EventSequence& events, std::vector<Piece>& pieces) const {
  std::vector<std::int32_t> tokens;
  std::vector<double> times;
  if (window() > 0.0) {
    tokens.push_back(static_cast<std::int32_t>(types_));
    times.push_back(0.0);
  }
  tokens.insert(tokens.end(), events.types.begin(), events.types.end());
  times.insert(times.end(), events.times.begin(), events.times.end());
  for (std::size_t first = 0; first < tokens.size(); first += config_.length - 1) {
    const std::size_t end = std::min(first + config_.length, tokens.size());
    const bool last = end == tokens.size();
    Piece piece;
    for (std::size_t i = first; i < end; ++i) {
      piece.tokens.push_back(tokens[i]);
      piece.times.push_back(static_cast<float>(times[i] - times[first]));
      double gap = 0.0;
      std::int32_t next = kIgnoredTarget;
      if (i + 1 < end) {
        next = tokens[i + 1];
        gap = times[i + 1] - times[i];
      } else if (last && window() > 0.0) {
        next = kNoEvent;
        gap = window() / unit_ - times[i];
      }
      piece.next.push_back(next);
      piece.gaps.push_back(static_cast<float>(std::max(gap, 0.0)));
    }
    const bool counts = std::ranges::any_of(piece.next, [](std::int32_t t) { return t >= 0; });
    if (counts) pieces.push_back(std::move(piece));
    if (last) break;
  }
}

std::string EventsTask::checksum() const {
  if (!checksum_.empty() || config_.source.drawn()) return checksum_;
  return checksum_of(read());
}

TaskOptions EventsTask::learned() const {
  return {{"types", std::to_string(types_)},
          {"unit", fmt::format("{}", unit_)},
          {"longest", fmt::format("{}", longest_)},
          {"checksum", checksum_}};
}

void EventsTask::use_learned(const TaskOptions& facts) {
  const auto number = [&](const char* name) {
    const auto fact = facts.find(name);
    const std::string text = fact == facts.end() ? "" : fact->second;
    const double value = detail::decimal_from(text).value_or(0.0);
    require(value > 0.0 && value <= 1e18,
            "[events] '{}' of what was learned is '{}'; need a number above 0", name,
            printable(text));
    return value;
  };
  const double types = number("types");
  require(types <= kMostEventTypes && types == std::floor(types),
          "[events] 'types' of what was learned is {}; need a whole number up to {}", types,
          kMostEventTypes);
  const auto checksum = facts.find("checksum");
  types_ = static_cast<std::size_t>(types);
  known_ = {types_, number("unit"), number("longest"),
            checksum == facts.end() ? "" : checksum->second};
}

std::string EventsTask::describe() const {
  const auto events = [](const Set& set) {
    std::size_t count = 0;
    for (const EventSequence& e : set.sequences) count += e.times.size();
    return count;
  };
  return fmt::format("events of {}, {} to train, {} to validate, {} to test, one every {:.4g}",
                     counted(types_, "type"), events(training_), events(validation_), events(test_),
                     unit_);
}

ModelNeeds EventsTask::needs() const {
  return {
      .family = Family::kDecoder,
      .head = HeadKind::kTagger,
      .loss = published() ? "events-published"
                          : std::string(event_loss_name(config_.decay, config_.integration)),
      .vocabulary = types_ + 1,
      .classes = published() ? published_scores(types_) : types_ * scores_per_type(config_.decay),
      .length = config_.length};
}

std::vector<const EventsTask::Set*> EventsTask::sets(Split split) const {
  switch (split) {
    case Split::kTraining:
      return {&training_};
    case Split::kValidation:
      return {&validation_};
    case Split::kTest:
      return {&test_};
    case Split::kAll:
      return {&training_, &validation_, &test_};
  }
  return {};
}

std::size_t EventsTask::examples(Split split) const {
  std::size_t count = 0;
  for (const Set* set : sets(split)) count += set->pieces.size();
  return count;
}

Split EventsTask::held_out() const {
  return validation_.pieces.empty() ? Split::kTest : Split::kValidation;
}

const EventsTask::Piece& EventsTask::piece(Split split, std::size_t at) const {
  const std::vector<const Set*> all = sets(split);
  std::size_t i = 0;
  while (at >= all[i]->pieces.size()) at -= all[i++]->pieces.size();
  return all[i]->pieces[at];
}

Batch EventsTask::fill(std::span<const Piece* const> rows, BatchMemory& memory) const {
  std::size_t length = 1;
  for (const Piece* p : rows) length = std::max(length, p->tokens.size());
  memory.tokens.assign(rows.size() * length, 0);
  memory.targets.assign(rows.size() * length, kIgnoredTarget);
  memory.times.assign(rows.size() * length, 0.0F);
  memory.values.assign(rows.size() * length, 0.0F);
  memory.lengths.resize(rows.size());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const Piece& p = *rows[row];
    const auto at = static_cast<std::ptrdiff_t>(row * length);
    std::ranges::copy(p.tokens, memory.tokens.begin() + at);
    std::ranges::copy(p.next, memory.targets.begin() + at);
    std::ranges::copy(p.times, memory.times.begin() + at);
    std::ranges::copy(p.gaps, memory.values.begin() + at);
    memory.lengths[row] = static_cast<std::int32_t>(p.tokens.size());
  }
  return {.batch = rows.size(),
          .length = length,
          .tokens = memory.tokens,
          .times = memory.times,
          .targets = memory.targets,
          .values = memory.values,
          .lengths = memory.lengths};
}

Batch EventsTask::training_batch(std::uint64_t seed, std::uint64_t step, std::size_t rows,
                                 BatchMemory& memory) {
  const std::vector<Piece>& from = training_.pieces;
  require(!from.empty(), "[events] {} has no events to train on; need some", config_.source.data);
  const auto length = [&](std::size_t i) { return from[i].tokens.size(); };
  std::vector<const Piece*> chosen;
  for (const std::uint32_t i :
       bucketed_.batch(derive(seed, name()), step, rows, from.size(), length)) {
    chosen.push_back(&from[i]);
  }
  return fill(chosen, memory);
}

Batch EventsTask::batch(Split split, const Examples& which, BatchMemory& memory) {
  std::vector<const Piece*> chosen;
  for (std::size_t i = 0; i < which.count; ++i) {
    chosen.push_back(&piece(split, which.first + i * which.stride));
  }
  return fill(chosen, memory);
}

}  // namespace longspan
