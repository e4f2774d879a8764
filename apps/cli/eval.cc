// longspan eval: how good a trained model is.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "applies.h"
#include "command.h"
#include "longspan/base/error.h"
#include "longspan/training/evaluate.h"
#include "longspan/training/run_directory.h"
#include "task_flags.h"
#include "terminal.h"

namespace longspan::cli {

namespace {

struct EvalOptions {
  std::string directory;
  std::string data;
  Choice<Split> split = Split::kValidation;
  std::size_t length = 0;
  std::size_t batch = 0;
  std::size_t history = 0;
  Applies applies;
};

// The task as it was trained, but for what the options change of it.
std::unique_ptr<Task> open_task(const EvalOptions& o, RunConfig config) {
  if (o.data.empty()) {
    config.find_data();
  } else {
    config.options["data"] = o.data;
  }
  if (o.length > 0) config.options["length"] = std::to_string(o.length);
  std::unique_ptr<Task> task = config.make_task();
  task->open();
  if (o.data.empty() && !config.data.checksum.empty() && task->checksum() != config.data.checksum) {
    fmt::print(stderr, "note: {} is not what the model was trained on: it has changed since\n",
               config.options["data"]);
  }
  const ModelNeeds needs = task->needs();
  const std::size_t length = std::max(needs.length, needs.source_length);
  require(length <= config.model.max_length, "[eval] length {}; the model takes at most {}", length,
          config.model.max_length);
  return task;
}

void print_json(const EvalOptions& o, const LoadedRun& run, const Task& task, const Judgement& q) {
  nlohmann::json json = {{"checkpoint", o.directory},
                         {"step", run.step},
                         {"split", name_of(q.split)},
                         {"memory", o.history},
                         {q.counted, q.count}};
  const TaskOptions options = task.options();
  if (const auto data = options.find("data"); data != options.end()) json["data"] = data->second;
  for (const Metric& m : q.metrics) json[m.name] = m.value;
  fmt::print("{}\n", json.dump(2));
}

void print_text(const LoadedRun& run, const Judgement& q) {
  print_wrapped("", fmt::format("{}, step {}", q.subject, run.step));
  std::size_t width = 0;
  for (const Metric& m : q.metrics) {
    if (!m.text.empty()) width = std::max(width, m.name.size());
  }
  for (const Metric& m : q.metrics) {
    if (m.text.empty()) continue;
    std::string label = m.name;
    std::ranges::replace(label, '_', ' ');
    fmt::print("  {:<{}}  {}\n", label, width, m.text);
  }
}

void run_eval(const EvalOptions& o, const Common& common) {
  LoadedRun run = load_run(o.directory);
  o.applies.check("eval", run.config);
  const std::unique_ptr<Task> task = open_task(o, run.config);
  // "validation" is what judged the model while it was trained.
  const Split split =
      o.split == Split::kValidation ? task->held_out() : static_cast<Split>(o.split);
  const std::size_t batch = o.batch == 0 ? run.config.data.batch : o.batch;
  const Judgement q = evaluate(*run.model, *task, split, {.batch = batch, .history = o.history});
  if (common.json) {
    print_json(o, run, *task, q);
  } else {
    print_text(run, q);
  }
}

}  // namespace

void add_eval(CLI::App& app, const Common& common) {
  CLI::App* command =
      app.add_subcommand("eval", "Loss, accuracy and the task's other metrics of a model");
  auto o = std::make_shared<EvalOptions>();
  command->add_option("checkpoint", o->directory, "Directory of the trained model")->required();
  command->add_option("--data", o->data, "Other data than those it was trained on");
  add_choice(*command, "--split", o->split,
             "Of the data; validation is what judged it in training");
  add_number(*command, "--length", o->length, "Tokens per sequence; 0: as trained",
             from_to(0, 1e7));
  add_number(*command, "--batch", o->batch, "Sequences per batch; 0: as trained", from_to(0, 1e6));
  add_number(*command, "--memory", o->history,
             "Tokens that each sequence remembers of those before it (transformer-xl)",
             from_to(0, 1e7));
  for (const char* option : {"data", "length"}) {
    o->applies.only(*command, {fmt::format("--{}", option)}, only_tasks_with(option));
  }
  command->footer(
      "Examples:\n"
      "  longspan eval model\n"
      "  longspan eval model --length 32 --memory 128\n"
      "  longspan eval model --data other.txt --split all --json");
  command->callback([o, &common] { run_eval(*o, common); });
}

}  // namespace longspan::cli
