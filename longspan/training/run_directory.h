// A trained model on disk: checkpoint, configuration and vocabulary, read and written together.
//
//   config.json   model      ModelConfig
//                 training   TrainConfig
//                 data       DataConfig, and the task's options by name
//                 vocabulary of a task that learned it from its data
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

#include "longspan/base/number.h"
#include "longspan/io/checkpoint.h"
#include "longspan/learning/trainer.h"
#include "longspan/models/model.h"
#include "longspan/tasks/registry.h"

namespace longspan {

// How the batches of a run are drawn.
struct DataConfig {
  std::string task = "text";
  std::string checksum;  // of the task's data, so that others are noticed on resuming
  std::size_t batch = 12;
  std::size_t batches_per_update = 1;

  bool operator==(const DataConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("task", task);
    see("checksum", checksum);
    see("batch", batch, from_to(1, 1e6));
    see("accumulate", batches_per_update, from_to(1, 1e6));
  }
};

struct RunConfig {
  ModelConfig model;
  TrainConfig train;
  DataConfig data;
  TaskOptions options;  // of the task
  std::optional<Vocabulary> vocabulary;

  // The task as it was configured, not yet opened.
  std::unique_ptr<Task> make_task() const;
};

nlohmann::json to_json(const RunConfig& config);
RunConfig run_config_from(const nlohmann::json& json, const std::filesystem::path& directory);

// Model, task and step of a checkpoint; throws Error, in one sentence, when something is missing or
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
