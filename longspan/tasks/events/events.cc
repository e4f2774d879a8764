#include "longspan/tasks/events/events.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "longspan/base/error.h"
#include "longspan/io/checksum.h"
#include "longspan/tasks/classes/split_files.h"
#include "longspan/tasks/events/event_file.h"
#include "longspan/tasks/task_options.h"

namespace longspan {

namespace {

constexpr double kDrawnWindow = 200.0;
// Of the targets of a model (layers/event_loss.h).
constexpr std::int32_t kNoneUntilTheEnd = -2;

}  // namespace

EventsTask::EventsTask(Config config) : config_(std::move(config)) {
  check_numbers(kName, config_);
}

TaskOptions EventsTask::options() const { return options_of(config_); }

std::string_view EventsTask::idle(std::string_view option) const {
  return config_.source.idle(option, {"length", "window", "decay"});
}

double EventsTask::window() const {
  return config_.window == 0.0 && config_.source.drawn() ? kDrawnWindow : config_.window;
}

EventsTask::Sets EventsTask::read() const {
  Sets all;
  if (config_.source.drawn()) {
    const RandomKey key = derive(config_.source.data_seed, kName);
    const HawkesProcess process = example_hawkes();
    std::uint64_t index = 0;
    const auto draw = [&](std::size_t count, Set& to) {
      for (std::size_t i = 0; i < count; ++i) {
        to.sequences.push_back(process.simulate(derive(key, index++), window()));
      }
    };
    draw(config_.source.held_out, all.test);
    draw(config_.source.held_out, all.validation);
    draw(config_.source.examples, all.training);
    return all;
  }
  const SplitFiles files = split_files(kName, config_.source.data);
  all.training.sequences = read_events(kName, files.training);
  if (files.validation) all.validation.sequences = read_events(kName, *files.validation);
  if (files.test) all.test.sequences = read_events(kName, *files.test);
  if (files.one) {
    std::vector<EventSequence> mixed = std::move(all.training.sequences);
    all.training.sequences.clear();
    for (std::size_t i = 0; i < mixed.size(); ++i) {
      Set& to = i % 10 == 8 ? all.validation : i % 10 == 9 ? all.test : all.training;
      to.sequences.push_back(std::move(mixed[i]));
    }
  }
  return all;
}

void EventsTask::open() {
  sets_ = read();
  types_ = 0;
  double time = 0.0;
  double gaps = 0.0;
  for (const Set* set : {&sets_.training, &sets_.validation, &sets_.test}) {
    for (const EventSequence& events : set->sequences) {
      for (const std::int32_t type : events.types) {
        types_ = std::max(types_, static_cast<std::size_t>(type) + 1);
      }
      const bool inside = events.times.empty() || window() == 0.0 ||
                          (events.times.front() >= 0.0 && events.times.back() <= window());
      require(inside, "[events] an event at {}; need all within the window of 0 to {}",
              events.times.empty()         ? 0.0
              : events.times.front() < 0.0 ? events.times.front()
                                           : events.times.back(),
              window());
      if (set != &sets_.training || events.times.empty()) continue;
      time += window() > 0.0 ? window() : events.times.back() - events.times.front();
      gaps += static_cast<double>(events.times.size()) - (window() > 0.0 ? 0.0 : 1.0);
    }
  }
  require(gaps > 0.0 && time > 0.0,
          "[events] {} has no events that follow others; need sequences of two at least",
          config_.source.drawn() ? std::string(kName) : config_.source.data);
  unit_ = time / gaps;
  for (Set* set : {&sets_.training, &sets_.validation, &sets_.test}) {
    for (const EventSequence& events : set->sequences) cut(events, set->pieces);
  }
}

// Time is counted from the first token of a piece, in mean gaps.
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
      piece.times.push_back(static_cast<float>((times[i] - times[first]) / unit_));
      double gap = 0.0;
      std::int32_t next = kIgnoredTarget;
      if (i + 1 < end) {
        next = tokens[i + 1];
        gap = times[i + 1] - times[i];
      } else if (last && window() > 0.0) {
        next = kNoneUntilTheEnd;
        gap = window() - times[i];
      }
      piece.next.push_back(next);
      piece.gaps.push_back(static_cast<float>(gap / unit_));
    }
    const bool counts = std::ranges::any_of(piece.next, [](std::int32_t t) { return t >= 0; });
    if (counts) pieces.push_back(std::move(piece));
    if (last) break;
  }
}

std::string EventsTask::checksum() const {
  if (config_.source.drawn()) return "";
  const Sets all = read();
  Checksum checksum;
  for (const Set* set : {&all.training, &all.validation, &all.test}) {
    for (const EventSequence& events : set->sequences) {
      checksum.add(std::as_bytes(std::span(events.times)));
      checksum.add(std::as_bytes(std::span(events.types)));
    }
  }
  return checksum.hex();
}

std::string EventsTask::describe() const {
  const auto events = [](const Set& set) {
    std::size_t count = 0;
    for (const EventSequence& e : set.sequences) count += e.times.size();
    return count;
  };
  return fmt::format(
      "events of {} types, {} to train, {} to validate, {} to test, one every {:.4g}", types_,
      events(sets_.training), events(sets_.validation), events(sets_.test), unit_);
}

ModelNeeds EventsTask::needs() const {
  const bool affine = config_.decay == EventDecay::kAffine;
  return {.family = Family::kDecoder,
          .head = HeadKind::kTagger,
          .loss = affine ? "events-affine" : "events-exponential",
          .vocabulary = types_ + 1,
          .classes = types_ * (affine ? 2 : 3),
          .length = config_.length};
}

std::vector<const EventsTask::Set*> EventsTask::sets(Split split) const {
  switch (split) {
    case Split::kTraining:
      return {&sets_.training};
    case Split::kValidation:
      return {&sets_.validation};
    case Split::kTest:
      return {&sets_.test};
    case Split::kAll:
      return {&sets_.training, &sets_.validation, &sets_.test};
  }
  return {};
}

std::size_t EventsTask::examples(Split split) const {
  std::size_t count = 0;
  for (const Set* set : sets(split)) count += set->pieces.size();
  return count;
}

Split EventsTask::held_out() const {
  return sets_.validation.pieces.empty() ? Split::kTest : Split::kValidation;
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
  const std::vector<Piece>& from = sets_.training.pieces;
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

EventsTask::Facts EventsTask::facts(Split split) const {
  Facts facts{.events = std::vector<double>(types_, 0.0)};
  for (const Set* set : sets(split)) {
    for (const Piece& p : set->pieces) {
      for (std::size_t i = 0; i < p.next.size(); ++i) {
        if (p.next[i] == kIgnoredTarget) continue;
        facts.time += p.gaps[i];
        if (p.next[i] >= 0) facts.events[static_cast<std::size_t>(p.next[i])] += 1.0;
      }
    }
  }
  return facts;
}

Judgement EventsTask::judge(Split split, const Tally& tally) const {
  // A time in mean gaps is shorter by the factor unit_, and an intensity as much higher.
  const double in_units = std::log(unit_);
  const double likelihood = -tally.mean_loss() - in_units;
  Judgement judgement{
      .split = split,
      .counted = "events",
      .count = tally.counted,
      .metrics = {{"loss", tally.mean_loss(),
                   fmt::format("{:.4f} nats per event", tally.mean_loss())},
                  {"log_likelihood", likelihood, fmt::format("{:.4f} nats per event", likelihood)},
                  {"accuracy", tally.accuracy(),
                   fmt::format("{:.2f} % of the types", 100.0 * tally.accuracy())}},
      .subject = fmt::format("{} {} sequences", tally.sequences, name_of(split))};
  judgement.line = fmt::format("log-likelihood {:.4f} per event, accuracy {:.2f} %", likelihood,
                               100.0 * tally.accuracy());
  if (sets_.training.pieces.empty()) return judgement;
  const Facts trained = facts(Split::kTraining);
  const Facts judged = facts(split);
  double sum = 0.0;
  double events = 0.0;
  for (std::size_t k = 0; k < types_; ++k) {
    const double rate = std::max(trained.events[k], 0.5) / trained.time;
    sum += judged.events[k] * std::log(rate) - rate * judged.time;
    events += judged.events[k];
  }
  const double poisson = sum / std::max(events, 1.0) - in_units;
  judgement.metrics.push_back(
      {"poisson", poisson, fmt::format("{:.4f} of a Poisson process on the whole split", poisson)});
  return judgement;
}

}  // namespace longspan
