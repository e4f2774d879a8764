// longspan advise: which attention for this length, and why.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "calibration_cache.h"
#include "command.h"
#include "compare_make.h"
#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "longspan/base/memory.h"
#include "longspan/base/number.h"
#include "longspan/base/parallel.h"
#include "longspan/compare/advice.h"
#include "longspan/compare/compare_plan.h"
#include "longspan/predict/sampling.h"
#include "longspan/report/compare_summary.h"
#include "modes.h"
#include "progress.h"
#include "table.h"
#include "terminal.h"

namespace longspan::cli {

namespace {

constexpr std::size_t kShown = 8;
constexpr double kNoticed = 0.5;  // seconds from which a wait is explained

struct AdviseOptions {
  CompareSettings settings;
  std::uint64_t length = 0;
  std::optional<std::uint64_t> memory;
  std::optional<double> error;
  bool train = false;
};

AdviceQuestion question_of(const AdviseOptions& o) {
  AdviceQuestion q;
  q.settings = o.settings;
  q.settings.phase = o.train ? ComparePhase::kTrain : ComparePhase::kForward;
  q.settings.threads = static_cast<std::uint64_t>(thread_count());
  q.length = o.length;
  check_question(q);
  require(q.settings.heads > 0 && q.settings.d_model % q.settings.heads == 0,
          "[advise] width {} does not divide into {} heads; need a multiple", q.settings.d_model,
          q.settings.heads);
  check_countable("advise", q.settings, q.length);
  if (o.memory) q.memory = static_cast<double>(*o.memory);
  q.error = o.error;
  return q;
}

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

std::string bytes_text(double bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); }

void print_table(const Advice& advice) {
  Table table(
      {{"attention"}, {"predicted", true}, {"interval", true}, {"memory", true}, {"error", true}});
  std::size_t shown = 0;
  for (const AdviceCandidate& c : advice.candidates) {
    const bool baseline = c.attention == "flash";
    if (!c.refused.empty() || (shown++ >= kShown && !baseline)) continue;
    const CompareTime& t = c.prediction.time;
    table.add({c.attention, time_text(*t.predicted), interval_text(t),
               bytes_text(*c.prediction.memory.predicted),
               c.error ? fmt::format("{:.2g}", *c.error) : ""});
  }
  table.print();
}

// Measures the pick beside flash, here.
std::string command_of(const AdviceQuestion& q, const AdviceCandidate& pick) {
  const CompareSettings& s = q.settings;
  std::string text = fmt::format(
      "longspan compare {} --attention {}{} --length {} --d-model {} --heads {} --batch {} "
      "--threads {}",
      s.phase.name(), pick.attention == "flash" ? "" : "flash,", pick.attention, q.length,
      s.d_model, s.heads, s.batch, s.threads);
  text += s.bare ? " --bare" : fmt::format(" --layers {} --d-ff {}", s.layers, s.d_ff);
  if (s.causal) text += " --causal";
  return text;
}

nlohmann::json as_json(const AdviceQuestion& q, const Advice& advice) {
  const auto number = [](const std::optional<double>& value) {
    return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
  };
  nlohmann::json json = {{"length", q.length},          {"phase", q.settings.phase.name()},
                         {"causal", q.settings.causal}, {"memory", number(q.memory)},
                         {"error", number(q.error)},    {"pick", nullptr},
                         {"command", nullptr},          {"candidates", nlohmann::json::array()}};
  if (const AdviceCandidate* pick = advice.pick()) {
    json["pick"] = pick->attention;
    json["command"] = command_of(q, *pick);
  }
  for (const AdviceCandidate& c : advice.candidates) {
    json["candidates"].push_back(
        {{"attention", c.attention},
         {"exact", c.exact},
         {"predicted", number(c.prediction.time.predicted)},
         {"low", number(c.prediction.time.low)},
         {"high", number(c.prediction.time.high)},
         {"memory", number(c.prediction.memory.predicted)},
         {"error", number(c.error)},
         {"error_length", c.error ? nlohmann::json(c.error_length) : nlohmann::json(nullptr)},
         {"tied", c.tied},
         {"refused", c.refused}});
  }
  return json;
}

// Why it is the pick although others may be as fast.
std::string tie_text(const Advice& advice) {
  const AdviceCandidate& pick = *advice.pick();
  const auto others = std::ranges::count_if(advice.candidates, &AdviceCandidate::tied) - 1;
  if (others <= 0) return "";
  const std::string how =
      pick.exact   ? "which is exact"
      : pick.error ? fmt::format("which errs least ({:.2g} on random inputs)", *pick.error)
                   : "which is predicted to be the fastest";
  return fmt::format("By the predicted intervals {} may be as fast; {}, {}, is preferred. ",
                     counted(static_cast<std::uint64_t>(others), "other"), pick.attention, how);
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

// Two or three sentences.
std::string why(const Calibration& calibration, const AdviceQuestion& q, const Advice& advice) {
  const AdviceCandidate& pick = *advice.pick();
  std::string text = fmt::format("{} is predicted to take {} and {}", pick.attention,
                                 time_text(*pick.prediction.time.predicted),
                                 bytes_text(*pick.prediction.memory.predicted));
  const AdviceCandidate* flash = advice.find("flash");
  if (pick.attention != "flash" && flash != nullptr && flash->prediction.time.predicted) {
    text += fmt::format(", {:.2f} times as fast as exact flash",
                        *flash->prediction.time.predicted / *pick.prediction.time.predicted);
  }
  text += fmt::format("; it gives up {}. {}", given_up(pick.attention), tie_text(advice)) +
          error_note(q, advice);
  if (q.error) return text + "For another length, ask again: errors change with it.";
  std::string changes;
  for (const bool longer : {false, true}) {
    const auto change = advice_changes(calibration, q, advice, longer);
    if (!change) continue;
    changes += fmt::format("{} n = {} {} it would be {}", changes.empty() ? "At" : ", at",
                           with_commas(change->length), longer ? "and above" : "and below",
                           change->attention);
  }
  if (changes.empty()) {
    return text + fmt::format("From n = {} to {} the answer is the same.",
                              with_commas(std::max<std::uint64_t>(1, q.length >> kDoublings)),
                              with_commas(std::min(kLongestCompared, q.length << kDoublings)));
  }
  return text + changes + ".";
}

Advice advise_visibly(const Calibration& calibration, const AdviceQuestion& q,
                      const Common& common) {
  Progress progress(1000, 0, common.quiet);
  const double start = stopwatch_seconds();
  return advise(calibration, q,
                [&](std::size_t index, std::size_t count, const std::string& attention) {
                  const double so_far = stopwatch_seconds() - start;
                  if (index == 0 || so_far < kNoticed) return;
                  const double share = static_cast<double>(index) / static_cast<double>(count);
                  progress.update_share(share, so_far * (1.0 - share) / share, attention);
                });
}

void run(const AdviseOptions& o, const Common& common) {
  const AdviceQuestion q = question_of(o);
  const Calibration calibration = calibration_for(common);
  const Advice advice = advise_visibly(calibration, q, common);
  if (common.json) return fmt::print("{}\n", as_json(q, advice).dump(2));
  const AdviceCandidate* pick = advice.pick();
  require(pick != nullptr, "[advise] nothing answers: {} {}; need fewer constraints",
          advice.candidates.front().attention, advice.candidates.front().refused);
  print_table(advice);
  fmt::print("\n");
  print_wrapped("", why(calibration, q, advice));
  fmt::print("\n{}\n", command_of(q, *pick));
}

}  // namespace

void add_advise(CLI::App& app, const Common& common) {
  CLI::App* command = app.add_subcommand("advise", "Which attention for a length, and why");
  const auto o = std::make_shared<AdviseOptions>();
  CompareSettings& s = o->settings;
  add_number(*command, "--length", o->length, "Tokens", from_to(1, kLongestCompared))
      ->default_str("")
      ->required();
  command->add_flag("--causal", s.causal, "No token may see later ones");
  command->add_flag("--train", o->train, "A training step, not inference");
  add_read(*command, "--memory", "At most this much: 4GiB", "", "Options",
           [&memory = o->memory](const std::string& text) {
             memory = parse_bytes("advise", "--memory", text);
           })
      ->type_name("BYTES");
  add_number(*command, "--error", o->error,
             "At most this far from exact attention on random inputs: 0.05", from_to(0, 1e6));
  const char* group = "Model";
  command->add_flag("--bare", s.bare, "Attention alone, without the model around it")->group(group);
  add_number(*command, "--layers", s.layers, "Layers", kLayers, group);
  add_number(*command, "--d-model", s.d_model, "Width", kWidth, group);
  add_number(*command, "--heads", s.heads, "Heads", kHeads, group);
  add_number(*command, "--d-ff", s.d_ff, "Width of the feed-forward layers", kSomeWidth, group);
  add_number(*command, "--batch", s.batch, "Sequences at a time", kSequences, group);
  command->footer(
      "Examples:\n"
      "  longspan advise --length 8192\n"
      "  longspan advise --length 4096 --causal --train --memory 4GiB\n"
      "  longspan advise --length 16384 --error 0.1 --json");
  const Modes modes = Modes().apart("--bare", {"--layers", "--d-ff"});
  command->callback([o, command, modes, &common] {
    modes.check(*command);
    run(*o, common);
  });
}

}  // namespace longspan::cli
