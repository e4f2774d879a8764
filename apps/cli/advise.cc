// longspan advise: which attention for this length, and why. In a model that exists closeness to
// exact attention decides, in one that is to be trained how good others became at a task.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "advise_text.h"
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
#include "longspan/compare/verdict.h"
#include "longspan/io/json_file.h"
#include "longspan/predict/sampling.h"
#include "longspan/report/shipped_quality.h"
#include "longspan/report/task_advice.h"
#include "longspan/tasks/registry.h"
#include "modes.h"
#include "progress.h"

namespace longspan::cli {

namespace {

constexpr double kNoticed = 0.5;  // seconds from which a wait is explained

struct AdviseOptions {
  CompareSettings settings;
  std::uint64_t length = 0;
  std::optional<std::uint64_t> memory;
  std::optional<double> error;
  bool train = false;
  bool replace = false;  // which is what is asked unless there is a task
  std::string task;
  std::string records;  // files
  double within = 0.01;
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

std::vector<QualityRecord> read_records(const std::string& files) {
  if (files.empty()) return shipped_quality();
  std::vector<QualityRecord> all;
  const std::vector<std::string> paths = split_list(files, ',');
  require(std::ranges::find(paths, "") == paths.end(),
          "[advise] --records is '{}'; need FILE[,FILE…]", files);
  for (const std::string& path : paths) {
    all.push_back(quality_record_from("[advise] " + path, read_json(path)));
  }
  return all;
}

// A decoder's task is learned behind a causal mask.
bool needs_causal(const std::string& task) {
  const std::vector<Family> families = find_task(task).make({})->families();
  return std::ranges::find(families, Family::kDecoder) != families.end();
}

// Makes it a question about a new model; returns what it is answered by.
QualityRecord ask_for_task(const AdviseOptions& o, AdviceQuestion& q) {
  q.settings.causal = q.settings.causal || needs_causal(o.task);
  QualityRecord record = record_of_task(read_records(o.records), o.task, q.length);
  q.judged = judged_by(record, {q.length, q.settings.causal, o.within});
  return record;
}

void run(const AdviseOptions& o, const Common& common) {
  AdviceQuestion q = question_of(o);
  std::optional<QualityRecord> record;
  if (!o.task.empty()) record = ask_for_task(o, q);
  const Calibration calibration = calibration_for(common);
  const Advice advice = advise_visibly(calibration, q, common);
  if (common.json) {
    return fmt::print("{}\n", advice_json(q, advice, record ? &*record : nullptr).dump(2));
  }
  // What exact attention lacks is what people ask next.
  const AdviceCandidate* exact = advice.find(kBaseline);
  const AdviceCandidate& first = exact == nullptr ? advice.candidates.front() : *exact;
  require(advice.pick() != nullptr, "[advise] nothing answers: {} {}; need fewer constraints",
          first.attention, first.refused);
  if (record) return print_for_task(q, advice, *record);
  print_replacement(calibration, q, advice);
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
  const char* replace =
      "To replace attention in a model that exists (what is asked without --task)";
  command->add_flag("--replace", o->replace, "What comes close to exact attention")->group(replace);
  add_number(*command, "--error", o->error,
             fmt::format("At most this far from exact attention on random inputs: 0.05; otherwise "
                         "{:g}",
                         kReplaces),
             from_to(0, 1e6), replace);
  const char* task = "To train a new model";
  add_text(*command, "--task", o->task, "What becomes as good as the best at NAME", task);
  add_text(*command, "--records", o->records,
           "By these records of longspan compare --task, FILE[,FILE…], not those of the program",
           task);
  add_number(*command, "--within", o->within,
             "As good is also what is worse by at most this: 0.01 of an accuracy", from_to(0, 1e6),
             task);
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
      "  longspan advise --length 16384 --replace --error 0.1 --json\n"
      "  longspan advise --length 16384 --task recall\n"
      "  longspan advise --length 4096 --task copy --records mine.json --within 0.01");
  const Modes modes = Modes()
                          .apart("--bare", {"--layers", "--d-ff"})
                          .apart("--task", {"--replace", "--error"})
                          .needs({"--records", "--within"}, {"--task"});
  command->callback([o, command, modes, &common] {
    modes.check(*command);
    run(*o, common);
  });
}

}  // namespace longspan::cli
