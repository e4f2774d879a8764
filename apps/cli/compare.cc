// longspan compare: every attention mechanism on this machine, predicted and measured.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <concepts>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "calibration_cache.h"
#include "command.h"
#include "compare_make.h"
#include "compare_results.h"
#include "compare_rules.h"
#include "compare_run.h"
#include "compare_source.h"
#include "compare_task.h"
#include "longspan/base/error.h"
#include "longspan/base/memory.h"
#include "longspan/base/number.h"
#include "longspan/base/parallel.h"
#include "longspan/io/json_file.h"
#include "longspan/io/record_json.h"
#include "longspan/report/compare_summary.h"
#include "longspan/report/compare_text.h"
#include "longspan/report/page.h"
#include "longspan/report/quality_record.h"
#include "modes.h"
#include "output.h"
#include "stop.h"
#include "terminal.h"

namespace longspan::cli {

namespace {

constexpr Bounds kLengths = from_to(1, kLongestCompared);

struct CompareOptions {
  CompareSettings settings;
  std::string attention;
  std::vector<std::uint64_t> lengths;
  std::uint64_t length = 0;
  std::uint64_t rounds = 5;
  double budget = 120.0;  // seconds
  std::string from;
  ComparePlaces places;
  bool csv = false;
  // Whether the user said so much: "--layers".
  std::function<bool(const std::string& flag)> typed;
};

CompareRecord read_compare(const std::string& path) {
  CompareRecord record = compare_record_from("[compare] " + path, read_json(path));
  summarize(record);
  return record;
}

// A record is added to under its own settings, and what it lacks is measured, unless the user says
// otherwise.
CompareOptions as_known(CompareOptions o, const CompareRecord& known) {
  CompareSettings settings = known.settings;
  const auto flag_of = [](std::string_view key) {
    std::string flag = key == "phase" ? "phase" : fmt::format("--{}", key);
    std::ranges::replace(flag, '_', '-');
    return flag;
  };
  // What was typed stays, and is refused where it differs.
  CompareSettings::visit(settings, [&](std::string_view key, auto& field, const auto&...) {
    CompareSettings::visit(o.settings, [&](std::string_view other, auto& own, const auto&...) {
      if constexpr (std::same_as<decltype(field), decltype(own)>) {
        if (key == other && o.typed(flag_of(key))) field = own;
      }
    });
  });
  o.settings = settings;
  if (!o.typed("--from") && settings.inputs != "random") o.from = settings.inputs;
  if (o.attention.empty()) {
    for (const CompareMechanism& m : known.mechanisms) {
      o.attention += (o.attention.empty() ? "" : ",") + m.name;
    }
  }
  const bool whole = std::ranges::none_of(
      known.points, [](const ComparePoint& p) { return p.status == PointStatus::kSkipped; });
  if (o.lengths.empty() && o.length == 0 && !whole) o.lengths = known.lengths;
  return o;
}

bool is_directory(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

PlanRequest request_of(const CompareOptions& o) {
  PlanRequest request;
  request.settings = o.settings;
  request.settings.threads = static_cast<std::uint64_t>(thread_count());
  request.settings.budget_seconds = o.budget;
  if (!o.from.empty()) request.settings.inputs = o.from;
  const CompareSettings& s = request.settings;
  require(s.batch > 0 && s.layers > 0, "[compare] {} sequences, {} layers; need at least one",
          s.batch, s.layers);
  require(s.heads > 0 && s.d_model > 0 && s.d_model % s.heads == 0,
          "[compare] width {} does not divide into {} heads; need a multiple", s.d_model, s.heads);
  require(o.lengths.empty() || o.length == 0, "[compare] --length and --lengths; need one of them");
  require(o.from.empty() || is_directory(o.from),
          "[compare] --from is '{}'; need the directory of a model", o.from);
  require(plain_text(o.from) == o.from,
          "[compare] --from is '{}'; need a name without control characters", plain_text(o.from));
  if (!o.from.empty()) request.settings.random_tokens = check_source(o.from);
  request.attention = attention_list(o.attention);
  request.lengths = o.lengths;
  // The length that is asked for comes first, what it takes to see where it comes from after it.
  for (std::uint64_t n = o.length; n > 0; n /= 2) {
    request.lengths.push_back(n);
    if (n <= kShortestCompared) break;
  }
  check_lengths(request);
  for (const std::uint64_t n : request.lengths) check_countable("compare", s, n);
  request.rounds = o.rounds;
  request.memory = static_cast<double>(available_memory());
  return request;
}

void show(const CompareRecord& record, const std::optional<CompareRecord>& against,
          const CompareOptions& o, const Common& common) {
  if (common.json) return fmt::print("{}\n", to_json(record).dump(2));
  if (o.csv) {
    print_verbatim();
    return fmt::print("{}", compare_csv(record));
  }
  const std::size_t width = terminal_width(STDOUT_FILENO);
  fmt::print("{}", compare_text(record, width));
  if (against) fmt::print("\n{}", compare_against(record, *against, width));
  flush_output();
}

void save(const CompareRecord& record, Results& results) {
  results.save(to_json(record), comparison_page(record));
}

// How a run ended.
struct Ending {
  bool whole = true;    // unless it was interrupted
  std::string failure;  // of its first point, where all that were tried failed
};

Ending ending_of(bool whole, const std::vector<ComparePoint>& points) {
  const auto has = [](PointStatus status) {
    return [status](const ComparePoint& p) { return p.status == status; };
  };
  Ending ending{.whole = whole};
  const auto failed = std::ranges::find_if(points, has(PointStatus::kFailed));
  if (failed != points.end() && std::ranges::none_of(points, has(PointStatus::kOk))) {
    ending.failure =
        fmt::format("{} at n = {}: {}", failed->mechanism, failed->length, failed->reason);
  }
  return ending;
}

// Measures what `known` does not have.
Ending measure(const PlanRequest& request, const Calibration& calibration, CompareRecord& record,
               const CompareRecord* known, Results& results, const Common& common) {
  const CompareRoofline roofline{calibration.fma_peak, calibration.bandwidth};
  const ComparePlan plan =
      plan_comparison(calibration, request, [&](const std::string& spec, std::uint64_t length) {
        const ComparePoint* p = known == nullptr ? nullptr : known->find(spec, length);
        return p != nullptr && p->status == PointStatus::kOk;
      });
  record = make_record(plan, request, roofline);
  std::size_t measured = 0;
  for (const PlannedPoint& p : plan.points) {
    record.points.push_back(predicted_point(p));
    if (p.measured) ++measured;
  }
  const auto current = [&] {
    summarize(record);
    return known == nullptr ? record : merge(*known, record);
  };
  current();  // refuses what cannot be added to
  require(
      std::ranges::any_of(record.points,
                          [](const ComparePoint& p) { return p.status != PointStatus::kRefused; }),
      "[compare] nothing can be measured: {}", record.points.front().reason);
  note(common,
       fmt::format("{} of {} points fit the budget of {}: about {}", measured, plan.points.size(),
                   human_seconds(request.settings.budget_seconds), human_seconds(plan.seconds)));
  CompareRun run;
  run.roofline = roofline;
  run.memory = 0.6 * request.memory;
  run.deadline = request.settings.budget_seconds;
  run.quiet = common.quiet;
  run.done = [&](const std::vector<ComparePoint>& points) {
    for (const ComparePoint& p : points) {
      for (ComparePoint& q : record.points) {
        if (q.mechanism == p.mechanism && q.length == p.length) q = p;
      }
    }
    save(current(), results);
  };
  const bool whole = run_comparison(plan, run);
  Ending ending = ending_of(whole, record.points);
  record = current();
  return ending;
}

// The record is only read; its page is made where there is none, and where the user says.
void render(const CompareOptions& o, const Common& common) {
  const RenderedPage page = rendered_page(o.places);
  const CompareRecord record = read_compare(o.places.render);
  std::optional<CompareRecord> against;
  if (!o.places.against.empty()) against = read_compare(o.places.against);
  show(record, against, o, common);
  page.write(comparison_page(record), common);
}

void run(const CompareOptions& given, const Common& common) {
  if (!given.places.render.empty()) return render(given, common);
  CompareOptions o = given;
  std::optional<CompareRecord> known;
  if (!o.places.add.empty()) {
    known = read_compare(o.places.add);
    o = as_known(std::move(o), *known);
    // As many as it was measured with, unless the user says otherwise.
    if (common.threads == 0) set_thread_count(static_cast<int>(known->settings.threads));
  }
  const PlanRequest request = request_of(o);
  if (known) check_alike(known->settings, request.settings);
  if (request.settings.random_tokens) {
    note(common, fmt::format("longspan reads no tokenizer of {} yet: its errors are measured on "
                             "random tokens",
                             o.from));
  }
  std::optional<CompareRecord> against;
  if (!o.places.against.empty()) against = read_compare(o.places.against);
  const std::filesystem::path place = place_of(o.places);
  const Calibration calibration = calibration_for(common);
  Results results(place, o.places.add.empty() ? nlohmann::json::object() : read_json(o.places.add));
  CompareRecord record;
  const Ending ending =
      measure(request, calibration, record, known ? &*known : nullptr, results, common);
  save(record, results);
  show(record, against, o, common);
  results.finish(common);
  if (!ending.whole) {
    throw Stopped{StopGuard::signal(), fmt::format("[compare] interrupted; go on with --add {}",
                                                   results.path().string())};
  }
  if (!ending.failure.empty()) {
    throw SystemError(fmt::format("[compare] every point failed; {}", ending.failure));
  }
}

// The model that is compared under every learning rule.
void describe(const CompareOptions& o, CompareRulesOptions& rules) {
  const CompareSettings& s = o.settings;
  rules.model.layers = s.layers;
  rules.model.d_model = s.d_model;
  rules.model.heads = s.heads;
  rules.model.d_ff = s.d_ff;
  if (!o.attention.empty()) rules.model.attention = o.attention;
  rules.batch = s.batch;
  if (o.length > 0) rules.length = o.length;
  rules.train.seed = s.seed;
}

// What is compared on a task.
void describe(const CompareOptions& o, const CompareRulesOptions& rules, CompareTaskOptions& task) {
  task.attention = o.attention;
  task.settings = o.settings;
  task.steps = rules.steps;
  // As it was typed, not as the float that it is learned with.
  task.learning_rate =
      longspan::detail::decimal_from(fmt::format("{}", rules.train.schedule.peak)).value_or(0.0);
  task.budget = o.budget;
  task.places = o.places;
  task.csv = o.csv;
  task.typed = o.typed;
}

bool is_quality(const std::string& path) { return is_quality_record(read_json(path)); }

void add_options(CLI::App& command, CompareOptions& o) {
  CompareSettings& s = o.settings;
  add_choice(command, "phase", s.phase, "A pass or a whole training step");
  command.add_option("--attention", o.attention,
                     "KIND[:key=value,…],… as longspan list names them; all unless given");
  const char* group = "Options";
  add_read(command, "--lengths",
           "256,512,…; doubling from 256 as far as the budget goes unless given",
           ends_in_words(kLengths), group,
           [&o](const std::string& text) { o.lengths = length_list(text); });
  add_number(command, "--length", o.length, "Doubling from 256 to this one, which comes first",
             kLengths)
      ->default_str("");
  add_duration(command, "--budget", o.budget, "Time for the whole run: 90s, 2m, 1h; 10m of --task",
               group)
      ->default_str("2m");
  add_number(command, "--rounds", o.rounds, "Measurements of each, in turn with all others",
             from_to(1, 1e6));
  command.add_option("--from", o.from, "Measure errors on what this trained model attends to");
  group = "Model";
  command.add_flag("--bare", s.bare, "Attention alone, without the model around it")->group(group);
  command.add_flag("--causal", s.causal, "A decoder: no token sees later ones")->group(group);
  add_number(command, "--layers", s.layers, "Layers; of --task its protocol's", kLayers, group);
  add_number(command, "--d-model", s.d_model, "Width; likewise", kWidth, group);
  add_number(command, "--heads", s.heads, "Heads; likewise", kHeads, group);
  add_number(command, "--d-ff", s.d_ff, "Width of the feed-forward layers", kSomeWidth, group);
  add_number(command, "--batch", s.batch, "Sequences at a time; of --task its protocol's",
             kSequences, group);
  add_number(command, "--seed", s.seed, "Of what is drawn", Bounds::of_type<std::uint64_t>(),
             group);
  group = "Results";
  command
      .add_option("--out", o.places.out,
                  "File for the results, or the page of --render; compare.json or the next free "
                  "name unless given")
      ->group(group);
  add_overwrite(command, o.places.existing)->group(group);
  command.add_option("--add", o.places.add, "Measure what this file has not, and add it")
      ->group(group);
  command.add_option("--render", o.places.render, "Show this file again, measure nothing")
      ->group(group);
  command.add_option("--against", o.places.against, "Beside a run of another machine")
      ->group(group);
  command.add_flag("--csv", o.csv, "Comma-separated values")->group(group);
}

}  // namespace

void add_compare(CLI::App& app, const Common& common) {
  CLI::App* command = app.add_subcommand(
      "compare",
      "Time, memory and error of every attention on this machine, predicted and measured");
  const auto options = std::make_shared<CompareOptions>();
  const auto rules = std::make_shared<CompareRulesOptions>();
  const auto task = std::make_shared<CompareTaskOptions>();
  add_options(*command, *options);
  add_compare_task_options(*command, *task);
  add_compare_rules_options(*command, *rules);
  command->footer(
      "Examples:\n"
      "  longspan compare\n"
      "  longspan compare train --budget 10m --out training.json\n"
      "  longspan compare --bare --attention flash,linformer,performer --length 65536\n"
      "  longspan compare --add compare.json --budget 5m\n"
      "  longspan compare --render compare.json --against other.json\n"
      "  longspan compare --task recall --attention flash,linear,performer,reformer --seeds 3\n"
      "  longspan compare --rules --text book.txt --layers 2 --d-model 64 --length 64 --batch 12");
  const std::string rule_group = command->get_option("--rules")->get_group();
  const std::string task_group = command->get_option("--task")->get_group();
  const Modes::Names trial_options = {task_group, kCompareTraining, "--attention", "--budget",
                                      "--layers", "--d-model",      "--heads",     "--batch",
                                      "--seed",   "Results"};
  const Modes modes =
      Modes()
          .only("--render", {"--out", "--overwrite", "--against", "--csv"})
          .only("--rules", {rule_group, kCompareTraining, "--attention", "--length", "--layers",
                            "--d-model", "--heads", "--d-ff", "--batch", "--seed"})
          .only("--task", trial_options)
          .needs({rule_group}, {"--rules"})
          .needs({kCompareTraining}, {"--rules", "--task", "--add"})
          .needs({"--seeds"}, {"--task", "--add"})
          .apart("--bare", {"--layers", "--d-ff"})
          .needs({"--overwrite"}, {"--out", "--render"});
  command->callback([options, rules, task, command, modes, trial_options, &common] {
    modes.check(*command);
    options->typed = [command](const std::string& flag) {
      const CLI::Option* option = command->get_option_no_throw(flag);
      return option != nullptr && option->count() > 0;
    };
    if (rules->rules) {
      describe(*options, *rules);
      return run_compare_rules(*rules, common);
    }
    describe(*options, *rules, *task);
    const ComparePlaces& places = options->places;
    if (!places.render.empty() && is_quality(places.render)) return render_quality(*task, common);
    const bool adds = !places.add.empty() && is_quality(places.add);
    if (adds) Modes().only("--add", trial_options).check(*command);
    if (adds || command->count("--task") > 0) return run_compare_task(*task, common);
    require(command->count("--seeds") + command->count("--steps") + command->count("--lr") == 0,
            "[compare] --seeds, --steps or --lr with {}, which has no trials; need one of --task",
            places.add);
    run(*options, common);
  });
}

}  // namespace longspan::cli
