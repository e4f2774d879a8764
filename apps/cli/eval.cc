// longspan eval: how good a trained model is.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "applies.h"
#include "command.h"
#include "compare_results.h"
#include "longspan/base/error.h"
#include "longspan/io/atomic_file.h"
#include "longspan/training/evaluate.h"
#include "longspan/training/evaluate_answers.h"
#include "longspan/training/pseudo_perplexity.h"
#include "longspan/training/run_directory.h"
#include "longspan/training/teacher.h"
#include "modes.h"
#include "output_file.h"
#include "stop.h"
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
  std::optional<std::size_t> answers;  // to write
  BeamConfig search{.beams = 1};
  std::optional<std::size_t> pseudo;  // windows
  std::string teacher;
  std::string predictions;
  Existing existing = Existing::kKept;
  Applies applies;
};

// A line of JSON for every target that counts: which example, where in it, what was right, what the
// model takes for likeliest and with which probability.
class Predictions {
 public:
  Predictions(const Task& task, const std::vector<std::string>& classes,
              const std::filesystem::path& path)
      : task_(task), names_(classes), file_("eval", path) {}

  void add(const Batch& batch, ConstMatrix scores, std::size_t first) {
    // Of an example; two sequences may have one.
    const std::size_t rows = std::max<std::size_t>(1, batch.targets.size() / batch.batch);
    std::string lines;
    for (std::size_t i = 0; i < batch.targets.size(); ++i) {
      if (batch.targets[i] == kIgnoredTarget) continue;
      const auto values = scores.row(i);
      const auto best = std::ranges::max_element(values);
      double sum = 0.0;
      for (const float v : values) sum += std::exp(static_cast<double>(v) - *best);
      nlohmann::json line = {{"example", task_.arranged(first + i / rows)},
                             {"target", batch.targets[i]},
                             {"predicted", best - values.begin()},
                             {"probability", 1.0 / sum}};
      if (!names_.empty()) {
        line["target_class"] = names_.at(static_cast<std::size_t>(batch.targets[i]));
        line["predicted_class"] = names_.at(static_cast<std::size_t>(best - values.begin()));
      }
      if (rows > 1) line["position"] = i % rows;
      lines += line.dump() + '\n';
    }
    file_.write(lines);
  }
  void commit() { file_.commit(); }

 private:
  const Task& task_;
  std::vector<std::string> names_;  // of classes
  AtomicFile file_;
};

// The task as it was trained, but for what the options change of it.
std::unique_ptr<Task> open_task(const EvalOptions& o, RunConfig config, const Common& common) {
  if (o.data.empty()) {
    config.find_data();
  } else {
    config.options["data"] = o.data;
  }
  const RunConfig as_trained = config;
  if (o.length > 0) config.options["length"] = std::to_string(o.length);
  std::unique_ptr<Task> task = config.make_task();
  task->open();
  const std::unique_ptr<Task> trained = o.length > 0 ? as_trained.make_task() : nullptr;
  const std::string& checksum = config.data.checksum;
  if (o.data.empty() && !checksum.empty() && (trained ? *trained : *task).checksum() != checksum) {
    note(common, fmt::format("note: {} is not what the model was trained on: it has changed "
                             "since, or was divided otherwise",
                             config.options["data"]));
  }
  if (!o.data.empty() && config.classes.empty() && !task->class_names().empty()) {
    note(common, fmt::format("note: the model does not say what its classes are called; those of "
                             "{} are taken in their order",
                             o.data));
  }
  const ModelNeeds needs = task->needs();
  const bool classifies =
      config.model.head == HeadKind::kClassifier || config.model.head == HeadKind::kPairs;
  require(!classifies || needs.classes <= config.model.classes,
          "[eval] {}: a class {}; the model knows 0 to {}", config.options["data"],
          needs.classes - 1, config.model.classes - 1);
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

// Files of the model, of its teacher and of the data.
std::vector<std::filesystem::path> files_read(const EvalOptions& o, const Task& task) {
  std::vector<std::filesystem::path> read;
  for (const std::filesystem::path run : {o.directory, o.teacher}) {
    if (run.empty()) continue;
    for (const char* file : {"model.safetensors", "config.json", "metrics.jsonl"}) {
      read.push_back(run / file);
    }
  }
  const TaskOptions options = task.options();
  if (const auto data = options.find("data"); data != options.end()) {
    read.emplace_back(data->second);
  }
  return read;
}

// What is done with the scores of every batch beside the task's metrics.
struct Beside {
  Beside(const EvalOptions& o, const LoadedRun& run, const Task& task) {
    const bool classifies = run.model->loss().classifies();
    if (!o.predictions.empty()) {
      require(o.history == 0, "[eval] --predictions with --memory; need one of them");
      require(classifies,
              "[eval] --predictions of {}, whose loss is {}; need a task of cross-entropy",
              task.name(), run.config.model.loss);
      check_not_read("eval", o.predictions, files_read(o, task));
      check_output("eval", o.predictions, o.existing);
      predictions.emplace(task, run.config.classes, o.predictions);
    }
    if (!o.teacher.empty()) {
      require(o.history == 0, "[eval] --teacher with --memory; need one of them");
      require(classifies, "[eval] --teacher of a model with the loss {}; need cross-entropy",
              run.config.model.loss);
      teacher.emplace(o.teacher, run.config);
    }
  }
  void see(Batch batch, ConstMatrix scores, std::size_t first) {
    if (predictions) predictions->add(batch, scores, first);
    if (!teacher) return;
    teacher->teach(batch, memory);
    closeness.add(batch, scores);
  }

  std::optional<Predictions> predictions;
  std::optional<Teacher> teacher;
  Closeness closeness;
  BatchMemory memory;
};

// Stopped half-way, it leaves no file that is half written.
Judgement judged(const LoadedRun& run, Task& task, Split split, EvaluateOptions& options) {
  const StopGuard guard;
  options.stops = [] { return StopGuard::signal() != 0; };
  try {
    Judgement q = evaluate(*run.model, task, split, options);
    if (StopGuard::signal() == 0) return q;
  } catch (const EvaluationStopped&) {  // as behind the last batch
  }
  throw Stopped{StopGuard::signal(), "[eval] interrupted; nothing was written"};
}

void run_eval(const EvalOptions& o, const Common& common) {
  LoadedRun run = load_run(o.directory);
  o.applies.check("eval", run.config);
  const std::unique_ptr<Task> task = open_task(o, run.config, common);
  // "validation" is what judged the model while it was trained.
  const Split split =
      o.split == Split::kValidation ? task->held_out() : static_cast<Split>(o.split);
  const std::size_t batch = o.batch == 0 ? run.config.data.batch : o.batch;
  EvaluateOptions options{.batch = batch, .history = o.history};
  Beside beside(o, run, *task);
  options.sees = [&](const Batch& seen, ConstMatrix scores, std::size_t first) {
    beside.see(seen, scores, first);
  };
  Judgement q = judged(run, *task, split, options);
  if (beside.predictions) beside.predictions->commit();
  if (beside.teacher) std::ranges::copy(beside.closeness.metrics(), std::back_inserter(q.metrics));
  if (o.answers) {
    q.metrics.push_back(
        evaluate_answers(*run.model, *task, split, *o.answers, o.search).metric(o.search));
  }
  if (o.pseudo) {
    q.metrics.push_back(evaluate_pseudo(*run.model, *task, split, *o.pseudo, batch).metric());
  }
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
  add_number(*command, "--generate", o->answers,
             "Also write the answers of the first so many, and say how many are exact",
             from_to(1, 1e9));
  add_number(*command, "--beams", o->search.beams, "Search for them, so many side by side",
             bounds_of(o->search, o->search.beams));
  add_number(*command, "--length-penalty", o->search.length_penalty,
             "Of the search, as generate has it", bounds_of(o->search, o->search.length_penalty));
  add_number(*command, "--pseudo", o->pseudo,
             "Also the pseudo-perplexity of the first so many windows, each token hidden alone",
             from_to(1, 1e9));
  command->add_option("--teacher", o->teacher,
                      "Also how close the model is to the one in this directory");
  o->applies.only(*command, {"--pseudo"}, only_tasks([](const Task& t) { return t.hides(); }));
  o->applies.only(*command, {"--generate"}, only_families({Family::kEncoderDecoder}));
  command->add_option("--predictions", o->predictions,
                      "A file for what the model takes every target for, as lines of JSON");
  add_overwrite(*command, o->existing);
  for (const char* option : {"data", "length"}) {
    o->applies.only(*command, {fmt::format("--{}", option)}, only_tasks_with(option));
  }
  command->footer(
      "Examples:\n"
      "  longspan eval model\n"
      "  longspan eval model --length 32 --memory 128\n"
      "  longspan eval model --data other.txt --split all --json\n"
      "  longspan eval dates --generate 200 --beams 4\n"
      "  longspan eval bert --pseudo 10\n"
      "  longspan eval student --teacher bert");
  const Modes modes = Modes()
                          .needs({"--overwrite"}, {"--predictions"})
                          .needs({"--beams"}, {"--generate"})
                          .needs({"--length-penalty"}, {"--beams"});
  command->callback([o, command, modes, &common] {
    modes.check(*command);
    run_eval(*o, common);
  });
}

}  // namespace longspan::cli
