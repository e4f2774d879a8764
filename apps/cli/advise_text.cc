#include "advise_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "longspan/base/memory.h"
#include "longspan/base/number.h"
#include "longspan/compare/compare_plan.h"
#include "longspan/compare/verdict.h"
#include "longspan/report/compare_summary.h"
#include "longspan/report/quality_table.h"
#include "table.h"
#include "terminal.h"

namespace longspan::cli {

namespace {

constexpr std::size_t kShown = 8;

// What times are read in, of `seconds` and what is near it.
struct TimeUnit {
  explicit TimeUnit(double seconds)
      : scale(seconds >= 1.0 ? 1.0 : 1e3), name(seconds >= 1.0 ? "s" : "ms") {}

  // Three digits.
  std::string number(double seconds) const {
    const double value = scale * seconds;
    if (value >= 1e6) return fmt::format("{:.2e}", value);
    const int digits = value >= 100.0 ? 0 : value >= 10.0 ? 1 : value >= 1.0 ? 2 : 3;
    return fmt::format("{:.{}f}", value, digits);
  }

  double scale;
  const char* name;
};

std::string time_text(double seconds) {
  const TimeUnit unit(seconds);
  return fmt::format("{} {}", unit.number(seconds), unit.name);
}

std::string interval_text(const CompareTime& t) {
  const TimeUnit unit(*t.predicted);
  return fmt::format("{} to {} {}", unit.number(*t.low), unit.number(*t.high), unit.name);
}

std::string size_text(double bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); }

std::string error_cell(const AdviceCandidate& c) {
  return c.error ? fmt::format("{:.2g}", *c.error) : "";
}

// Measures the pick beside flash, here.
std::string command_of(const AdviceQuestion& q, const AdviceCandidate& pick) {
  const CompareSettings& s = q.settings;
  std::string text = fmt::format(
      "longspan compare {} --attention {}{} --length {} --d-model {} --heads {} --batch {} "
      "--threads {}",
      s.phase.name(), pick.attention == kBaseline ? "" : "flash,", pick.attention, q.length,
      s.d_model, s.heads, s.batch, s.threads);
  text += s.bare ? " --bare" : fmt::format(" --layers {} --d-ff {}", s.layers, s.d_ff);
  if (s.causal) text += " --causal";
  return text;
}

std::string work_text(const AdviceQuestion& q) {
  return q.settings.phase == ComparePhase::kTrain ? "a training step" : "a forward pass";
}

// "flash is predicted to take 7.4 s and 240 MiB for a forward pass"
std::string cost_text(const AdviceQuestion& q, const Advice& advice) {
  const AdviceCandidate& pick = *advice.pick();
  const double seconds = *pick.prediction.time.predicted;
  std::string text =
      fmt::format("{} is predicted to take {} and {} for {}", pick.attention, time_text(seconds),
                  size_text(*pick.prediction.memory.predicted), work_text(q));
  const AdviceCandidate* flash = advice.find(kBaseline);
  if (&pick != flash && flash != nullptr && flash->prediction.time.predicted) {
    const double ratio = *flash->prediction.time.predicted / seconds;
    text += ratio >= 1.0 ? fmt::format(", {:.2f} times as fast as exact flash", ratio)
                         : fmt::format(", {:.2f} times as long as exact flash", 1.0 / ratio);
  }
  return text;
}

// Why it is the pick although others may be as fast.
std::string tie_text(const AdviceQuestion& q, const Advice& advice) {
  const AdviceCandidate& pick = *advice.pick();
  const auto others = std::ranges::count_if(advice.candidates, &AdviceCandidate::tied) - 1;
  if (!pick.tied || others <= 0) return "";
  const std::string how = pick.exact ? "which is exact"
                          : q.replaces()
                              ? fmt::format("which errs least ({:.2g})", pick.error.value_or(0.0))
                              : "which was the best of them";
  return fmt::format("By the predicted intervals {} may be as fast; {}, {}, is preferred. ",
                     counted(static_cast<std::uint64_t>(others), "other"), pick.attention, how);
}

// The fastest that replaces nothing, where it is faster than the pick.
std::string trained_only_note(const Advice& advice) {
  const AdviceCandidate* fastest = nullptr;
  for (const AdviceCandidate& c : advice.candidates) {
    if (c.trained_only && (fastest == nullptr ||
                           *c.prediction.time.predicted < *fastest->prediction.time.predicted)) {
      fastest = &c;
    }
  }
  const double seconds = *advice.pick()->prediction.time.predicted;
  if (fastest == nullptr || *fastest->prediction.time.predicted >= seconds) return "";
  return fmt::format("{} is predicted to be {:.2f} times as fast as {}, but {}. ",
                     fastest->attention, seconds / *fastest->prediction.time.predicted,
                     advice.pick()->attention, trained_only_text(fastest->error, "random inputs"));
}

// Where errors were measured on fewer tokens than were asked about.
std::string error_note(const AdviceQuestion& q, const Advice& advice) {
  const auto shorter = std::ranges::find_if(advice.candidates, [&](const AdviceCandidate& c) {
    return c.error && c.error_length < q.length;
  });
  if (shorter == advice.candidates.end()) return "";
  return fmt::format(
      "Errors were measured on {} random tokens, not {}: they usually grow with the length. ",
      with_commas(shorter->error_length), with_commas(q.length));
}

std::string change_text(const Calibration& calibration, const AdviceQuestion& q,
                        const Advice& advice) {
  if (q.error) return "For another length, ask again: errors change with it.";
  std::string changes;
  for (const bool longer : {false, true}) {
    const auto change = advice_changes(calibration, q, advice, longer);
    if (!change) continue;
    changes += fmt::format(
        "{} n = {} {} {}", changes.empty() ? "At" : ", at", with_commas(change->length),
        longer ? "and above" : "and below",
        change->attention.empty() ? "nothing would answer" : "it would be " + change->attention);
  }
  if (!changes.empty()) return changes + ", by the same errors.";
  return fmt::format("From n = {} to {} the answer is the same, by the same errors.",
                     with_commas(std::max<std::uint64_t>(1, q.length >> kDoublings)),
                     with_commas(std::min(kLongestCompared, q.length << kDoublings)));
}

// Those that answer, the pick first, or those that a model must be trained with.
void print_errors(const Advice& advice, bool trained_only) {
  Table table(
      {{"attention"}, {"predicted", true}, {"interval", true}, {"memory", true}, {"error", true}});
  std::size_t shown = 0;
  for (const AdviceCandidate& c : advice.candidates) {
    if (!c.prediction.time.predicted) continue;
    if (trained_only ? !c.trained_only : !c.refused.empty()) continue;
    if (shown++ >= kShown && c.attention != kBaseline) continue;
    const CompareTime& t = c.prediction.time;
    table.add({c.attention, time_text(*t.predicted), interval_text(t),
               size_text(*c.prediction.memory.predicted), error_cell(c)});
  }
  table.print();
}

const Standing* standing_in(const std::vector<Standing>& all, std::string_view attention) {
  const auto it = std::ranges::find(all, attention, &Standing::mechanism);
  return it == all.end() ? nullptr : &*it;
}

// Those that answer, the pick first, or those that do not, with the reason.
void print_qualities(const Advice& advice, const QualityRecord& record, bool answers) {
  const QualitySettings& s = record.settings;
  std::vector<Table::Column> columns = {{"attention"},           {s.metric, true},
                                        {"worst to best", true}, {"predicted", true},
                                        {"memory", true},        {"state", true}};
  if (!answers)
    columns = {{"attention"}, {s.metric, true}, {"predicted", true}, {"why", false, true}};
  Table table(columns);
  const std::vector<Standing> all = standings(record);
  for (const AdviceCandidate& c : advice.candidates) {
    if (c.refused.empty() != answers) continue;
    const Standing& standing = *standing_in(all, c.attention);
    const CasePrediction& p = c.prediction;
    const std::string quality = quality_text(s, standing.mean);
    const std::string time = p.time.predicted ? time_text(*p.time.predicted) : "–";
    if (answers) {
      table.add({c.attention, quality, spread_text(s, standing), time,
                 size_text(*p.memory.predicted), p.state ? size_text(*p.state) : "–"});
    } else {
      table.add({c.attention, quality, time, c.refused});
    }
  }
  table.print();
}

std::size_t seeds_of(const std::vector<Standing>& all) {
  return std::ranges::max(all, {}, &Standing::trained).trained;
}

// "2026-11-18" of "2026-11-18T06:16:06Z"
std::string day_of(const QualityRecord& record) {
  return record.created.substr(0, record.created.find('T'));
}

// "its accuracy is 99.72 %, that of exact flash 99.04 %"
std::string reached_text(const AdviceCandidate& pick, const QualityRecord& record) {
  const QualitySettings& s = record.settings;
  const std::vector<Standing> all = standings(record);
  std::string text = fmt::format("its {} is {}", s.metric,
                                 quality_text(s, standing_in(all, pick.attention)->mean));
  const Standing* flash = standing_in(all, kBaseline);
  if (pick.attention == kBaseline || flash == nullptr || flash->trained == 0) return text;
  return text + fmt::format(", that of exact flash {}{}", quality_text(s, flash->mean),
                            flash->as_good ? "" : " (--within says what may be lost)");
}

// How far what was measured is from what is asked.
std::string distance_text(const AdviceQuestion& q, const QualityRecord& record) {
  const QualitySettings& s = record.settings;
  std::string text = fmt::format(
      "That was learned at {} by {} of width {}; ",
      s.length ? fmt::format("n = {}", with_commas(*s.length)) : "a length the record does not say",
      counted(s.layers, "layer"), s.d_model);
  if (s.length == q.length) {
    text += "a larger model or another task may rank them otherwise.";
  } else if (s.length && q.length < *s.length) {
    text += fmt::format(
        "at n = {}, which is shorter, nobody has measured it, and others may be as "
        "good.",
        with_commas(q.length));
  } else {
    text += fmt::format(
        "at n = {} nobody has measured it, and what keeps a state of fixed size, or "
        "sees part of the tokens, usually loses with the length.",
        with_commas(q.length));
  }
  if (seeds_text(standings(record)).starts_with("1 ")) {
    text += " One seed says nothing about the spread.";
  }
  return text;
}

}  // namespace

void print_replacement(const Calibration& calibration, const AdviceQuestion& q,
                       const Advice& advice) {
  const double limit = q.error.value_or(kReplaces);
  print_wrapped("", fmt::format("To replace exact attention in a model that exists: what errs by "
                                "at most {:g} on random inputs. Nothing else is known of the rest; "
                                "for a model that is yet to be trained, ask with --task.",
                                limit));
  fmt::print("\n");
  print_errors(advice, /*trained_only=*/false);
  if (std::ranges::any_of(advice.candidates, &AdviceCandidate::trained_only)) {
    fmt::print("\n");
    print_wrapped("", "These replace nothing, a model must be trained with them:");
    fmt::print("\n");
    print_errors(advice, /*trained_only=*/true);
  }
  fmt::print("\n");
  print_wrapped("", fmt::format("{}; it gives up {}. {}", cost_text(q, advice),
                                given_up(advice.pick()->attention), tie_text(q, advice)) +
                        trained_only_note(advice) + error_note(q, advice) +
                        change_text(calibration, q, advice));
  fmt::print("\n{}\n", command_of(q, *advice.pick()));
}

void print_for_task(const AdviceQuestion& q, const Advice& advice, const QualityRecord& record) {
  const QualitySettings& s = record.settings;
  const std::vector<Standing> all = standings(record);
  print_wrapped("", fmt::format("To train a new model: what learns {} as well as the best, by {} "
                                "of {} ({}).",
                                s.task, seeds_text(all), day_of(record), protocol_text(record)));
  fmt::print("\n");
  print_qualities(advice, record, /*answers=*/true);
  const bool others = std::ranges::any_of(
      advice.candidates, [](const AdviceCandidate& c) { return !c.refused.empty(); });
  if (others) {
    fmt::print("\n");
    print_wrapped("", "These do not, or do not fit:");
    fmt::print("\n");
    print_qualities(advice, record, /*answers=*/false);
  }
  const AdviceCandidate& pick = *advice.pick();
  fmt::print("\n");
  print_wrapped("", fmt::format("{}; {}. {}", cost_text(q, advice), reached_text(pick, record),
                                tie_text(q, advice)) +
                        distance_text(q, record));
  fmt::print("\nmeasured by\n{}\ntimes here by\n{}\n", record.command, command_of(q, pick));
}

nlohmann::json advice_json(const AdviceQuestion& q, const Advice& advice,
                           const QualityRecord* record) {
  using nlohmann::json;
  const auto number = [](const std::optional<double>& value) {
    return value ? json(*value) : json(nullptr);
  };
  const json limit = q.replaces() ? json(q.error.value_or(kReplaces)) : json(nullptr);
  json out = {{"question", q.replaces() ? "replace" : "task"},
              {"length", q.length},
              {"phase", q.settings.phase.name()},
              {"causal", q.settings.causal},
              {"memory", number(q.memory)},
              {"error", limit},
              {"pick", nullptr},
              {"command", nullptr},
              {"candidates", json::array()}};
  if (const AdviceCandidate* pick = advice.pick()) {
    out["pick"] = pick->attention;
    out["command"] = command_of(q, *pick);
  }
  const std::vector<Standing> all =
      record != nullptr ? standings(*record) : std::vector<Standing>{};
  if (record != nullptr) {
    out["task"] = {{"name", record->settings.task},
                   {"metric", record->settings.metric},
                   {"created", record->created},
                   {"command", record->command},
                   {"cpu", record->machine.cpu},
                   {"seeds", seeds_of(all)},
                   {"length", record->settings.length ? json(*record->settings.length) : json()}};
  }
  for (const AdviceCandidate& c : advice.candidates) {
    json candidate = {{"attention", c.attention},
                      {"exact", c.exact},
                      {"predicted", number(c.prediction.time.predicted)},
                      {"low", number(c.prediction.time.low)},
                      {"high", number(c.prediction.time.high)},
                      {"memory", number(c.prediction.memory.predicted)},
                      {"state", number(c.prediction.state)},
                      {"error", number(c.error)},
                      {"error_length", c.error ? json(c.error_length) : json(nullptr)},
                      {"trained_only", c.trained_only},
                      {"tied", c.tied},
                      {"refused", c.refused}};
    if (const Standing* standing = standing_in(all, c.attention)) {
      candidate["quality"] = {
          {"mean", standing->mean}, {"worst", standing->worst}, {"best", standing->best}};
    }
    out["candidates"].push_back(std::move(candidate));
  }
  return out;
}

}  // namespace longspan::cli
