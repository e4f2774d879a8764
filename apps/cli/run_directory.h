// A trained model on disk: checkpoint, configuration and vocabulary, read and written together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "longspan/io/checkpoint.h"
#include "longspan/learning/trainer.h"
#include "longspan/models/model.h"
#include "longspan/tasks/vocabulary.h"

namespace longspan::cli {

// How the batches of a run are drawn.
struct DataConfig {
  std::string task = "text";
  std::string data;      // path, as the user gave it
  std::string checksum;  // of the file, so that a changed one is noticed on resuming
  std::size_t length = 64;
  std::size_t batch = 12;
  std::size_t accumulate = 1;  // batches per update
  std::size_t patch = 4;       // of images: side of a transformer's patches

  bool operator==(const DataConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("task", task);
    see("data", data);
    see("checksum", checksum);
    see("length", length);
    see("batch", batch);
    see("accumulate", accumulate);
    see("patch", patch);
  }
};

struct RunConfig {
  ModelConfig model;
  TrainConfig train;
  DataConfig data;
  Vocabulary vocabulary = Vocabulary::bytes();
};

nlohmann::json to_json(const RunConfig& config);
RunConfig run_config_from(const nlohmann::json& json, const std::filesystem::path& directory);

// Model, vocabulary and step of a checkpoint; throws Error, in one sentence, when something is
// missing or does not fit.
struct LoadedRun {
  RunConfig config;
  std::unique_ptr<Model> model;
  std::uint64_t step = 0;
};
LoadedRun load_run(const std::filesystem::path& directory);

// Also fills the trainer's state.
void restore(const std::filesystem::path& directory, Model& model, Trainer& trainer);
void save(const std::filesystem::path& directory, const RunConfig& config, Model& model,
          Trainer& trainer);

}  // namespace longspan::cli
