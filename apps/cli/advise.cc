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
#include "longspan/base/parallel.h"
#include "longspan/compare/advice.h"
#include "longspan/compare/compare_plan.h"
#include "longspan/report/compare_summary.h"

namespace longspan::cli {

namespace {

constexpr std::size_t kShown = 8;

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
  q.settings.task = o.train ? CompareTask::kTrain : CompareTask::kForward;
  q.settings.threads = static_cast<std::uint64_t>(thread_count());
  q.length = o.length;
  require(q.settings.heads > 0 && q.settings.d_model % q.settings.heads == 0,
          "[advise] width {} does not divide into {} heads; need a multiple", q.settings.d_model,
          q.settings.heads);
  check_countable("advise", q.settings, q.length);
  if (o.memory) q.memory = static_cast<double>(*o.memory);
  q.error = o.error;
  return q;
}

nlohmann::json as_json(const AdviceQuestion& q, const Advice& advice) {
  const auto number = [](const std::optional<double>& value) {
    return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
  };
  nlohmann::json json = {{"length", q.length},
                         {"task", q.settings.task.name()},
                         {"causal", q.settings.causal},
                         {"memory", number(q.memory)},
                         {"error", number(q.error)},
                         {"pick", nullptr},
                         {"candidates", nlohmann::json::array()}};
  if (const AdviceCandidate* pick = advice.pick()) json["pick"] = pick->attention;
  for (const AdviceCandidate& c : advice.candidates) {
    json["candidates"].push_back({{"attention", c.attention},
                                  {"exact", c.exact},
                                  {"predicted", number(c.prediction.time.predicted)},
                                  {"low", number(c.prediction.time.low)},
                                  {"high", number(c.prediction.time.high)},
                                  {"memory", number(c.prediction.memory.predicted)},
                                  {"error", number(c.error)},
                                  {"refused", c.refused}});
  }
  return json;
}

std::string milliseconds(double seconds) {
  return fmt::format("{:.{}f} ms", 1e3 * seconds, seconds < 0.1 ? 2 : 0);
}

std::string bytes_text(double bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); }

void print_table(const Advice& advice) {
  fmt::print("{:<34} {:>12} {:>25} {:>11} {:>9}\n", "attention", "predicted", "interval", "memory",
             "error");
  std::size_t shown = 0;
  for (const AdviceCandidate& c : advice.candidates) {
    const bool baseline = c.attention == "flash";
    if (!c.refused.empty() || (shown++ >= kShown && !baseline)) continue;
    const CompareTime& t = c.prediction.time;
    fmt::print("{:<34} {:>12} {:>25} {:>11} {:>9}\n", c.attention, milliseconds(*t.predicted),
               milliseconds(*t.low) + " to " + milliseconds(*t.high),
               bytes_text(*c.prediction.memory.predicted),
               c.error ? fmt::format("{:.3g}", *c.error) : "");
  }
}

std::string flags_of(const AdviceQuestion& q, const AdviceCandidate& c) {
  return fmt::format("--attention {} --length {}{}", c.attention, q.length,
                     q.settings.causal ? " --causal" : "");
}

// Two sentences.
std::string why(const Calibration& calibration, const AdviceQuestion& q, const Advice& advice) {
  const AdviceCandidate& pick = *advice.pick();
  std::string text = fmt::format("{} is predicted to take {} and {}", pick.attention,
                                 milliseconds(*pick.prediction.time.predicted),
                                 bytes_text(*pick.prediction.memory.predicted));
  const AdviceCandidate* flash = advice.find("flash");
  if (pick.attention != "flash" && flash != nullptr && flash->prediction.time.predicted) {
    text += fmt::format(", {:.2f} times as fast as exact flash",
                        *flash->prediction.time.predicted / *pick.prediction.time.predicted);
  }
  text += fmt::format("; it gives up {}. ", given_up(pick.attention));
  std::string changes;
  for (const bool longer : {false, true}) {
    const auto change = advice_changes(calibration, q, advice, longer);
    if (!change) continue;
    changes += fmt::format("{}{} n = {} {}", changes.empty() ? "the answer changes " : ", and ",
                           longer ? "from about" : "down at", with_commas(change->length),
                           "to " + change->attention);
  }
  if (changes.empty())
    return text + "From a sixteenth to sixteen times the length the answer stays.";
  changes[0] = static_cast<char>(std::toupper(changes[0]));
  return text + changes + ".";
}

void run(const AdviseOptions& o, const Common& common) {
  const AdviceQuestion q = question_of(o);
  const Calibration calibration = calibration_for(common);
  const Advice advice = advise(calibration, q);
  if (common.json) return fmt::print("{}\n", as_json(q, advice).dump(2));
  const AdviceCandidate* pick = advice.pick();
  require(pick != nullptr, "[advise] nothing answers: {} {}; need fewer constraints",
          advice.candidates.front().attention, advice.candidates.front().refused);
  print_table(advice);
  fmt::print("\n{}\n\nuse: {}\n", why(calibration, q, advice), flags_of(q, *pick));
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
  command->callback([o, &common] { run(*o, common); });
}

}  // namespace longspan::cli
