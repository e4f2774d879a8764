// A trained model on disk: checkpoint, configuration and vocabulary, read and written together.
//
//   config.json   model      ModelConfig
//                 training   TrainConfig
//                 data       DataConfig, and the task's options by name
//                 teacher    TeacherConfig, of earlier versions not
//                 course     CourseConfig; of version 0.1 not, which went on for schedule_steps
//                 vocabulary of a task that learned it from its data
//                 classes    names, of a task whose data have them; of earlier versions not
//                 learned    what else a task must know of its training data; likewise
//
// The checkpoint's metadata have the step and the order in which the parameters lie in their block,
// which is the order of the optimiser's averages.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "longspan/base/distillation_config.h"
#include "longspan/base/number.h"
#include "longspan/io/checkpoint.h"
#include "longspan/learning/trainer.h"
#include "longspan/models/model.h"
#include "longspan/tasks/registry.h"

namespace longspan {

// How the batches of a run are drawn.
struct DataConfig {
  std::string task = "text";
  std::string checksum;   // of the task's data, so that others are noticed on resuming
  std::string data_path;  // absolute, beside the task's option `data` as it was typed
  std::size_t batch = 12;
  std::size_t batches_per_update = 1;

  bool operator==(const DataConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("task", task);
    see("checksum", checksum);
    see("data_path", data_path);
    see("batch", batch, from_to(1, 1e6));
    see("accumulate", batches_per_update, from_to(1, 65536));
  }
};

// How far a run goes, and what happens on the way: nothing that its weights at a step depend on.
struct CourseConfig {
  std::uint64_t steps = 2000;       // in all
  std::uint64_t eval_every = 500;   // 0: never
  std::size_t eval_examples = 200;  // 0: all
  std::uint64_t report_every = 10;  // steps between lines of metrics.jsonl; 0: evaluations only
  std::uint64_t align_every = 0;    // 0: never
  std::uint64_t save_every = 500;   // 0: at the end only
  std::uint64_t patience = 0;       // evaluations without a better loss until it stops; 0: never
  bool keep_best = false;           // the best checkpoint stays in the directory `best`

  bool operator==(const CourseConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("steps", steps, from_to(0, 1e12));
    see("eval_every", eval_every, from_to(0, 1e12));
    see("eval_windows", eval_examples, from_to(0, 1e9));
    see("report_every", report_every, from_to(0, 1e12));
    see("align_every", align_every, from_to(0, 1e12));
    see("save_every", save_every, from_to(0, 1e12));
    see("patience", patience, from_to(0, 1e9));
    see("keep_best", keep_best);
  }
};

// The run that a model learns from, and how.
struct TeacherConfig {
  std::string directory;  // as it was typed; empty: there is none
  std::string path;       // absolute
  std::string checksum;   // of its checkpoint, so that another one is noticed on resuming
  DistillationConfig distillation;

  bool given() const { return !directory.empty(); }
  bool operator==(const TeacherConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("teacher", directory);
    see("teacher_path", path);
    see("teacher_checksum", checksum);
    distillation.visit(see);
  }
};

struct RunConfig {
  ModelConfig model;
  TrainConfig train;
  DataConfig data;
  TaskOptions options;  // of the task
  CourseConfig course;
  TeacherConfig teacher;
  std::optional<Vocabulary> vocabulary;
  std::vector<std::string> classes;  // names, where the data have them
  TaskOptions learned;               // of the training data

  // The task as it was configured, not yet opened.
  std::unique_ptr<Task> make_task() const;
  // The task's option `data`, if it has one, from now on says where they are: where they were, or
  // where the typed path leads from here. Throws Error where they are gone.
  void find_data();
};

nlohmann::json to_json(const RunConfig& config);
RunConfig run_config_from(const nlohmann::json& json, const std::filesystem::path& directory);

// Whether the directory has a config.json of another program, as Hugging Face's models do.
bool is_foreign(const std::filesystem::path& directory);
// Opens a checkpoint with a run in it; throws Error, in one sentence, for any other directory.
Checkpoint open_run(const std::filesystem::path& directory);

// Model, task and step of a checkpoint. The model is to infer: without gradients, its weights packed
// until unpack(). Throws Error, in one sentence, when something is missing or
// does not fit.
struct LoadedRun {
  RunConfig config;
  std::unique_ptr<Model> model;
  std::uint64_t step = 0;
};
LoadedRun load_run(const std::filesystem::path& directory);

// How far a run that stops early has come.
struct Patience {
  std::optional<double> best;  // held-out loss
  std::uint64_t best_step = 0;
  std::uint64_t waited = 0;  // evaluations since
  bool due = false;          // the evaluation of the last step was stopped and is yet to come

  // Takes the loss of an evaluation; returns whether it is the best.
  bool improved(double loss, std::uint64_t step);
};

// That restore would find the weights of the model, which needs no memory for them yet.
void check_weights(const std::filesystem::path& directory, Model& model);

// Also fills the trainer's state.
void restore(const std::filesystem::path& directory, Model& model, Trainer& trainer,
             Patience& patience);
void save(const std::filesystem::path& directory, const RunConfig& config, Model& model,
          Trainer& trainer, const Patience& patience);

}  // namespace longspan
