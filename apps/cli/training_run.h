// A run of training: steps, progress, validations, checkpoints and what is said at the end. The
// task fills the batches and judges the model.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "progress.h"
#include "train.h"

namespace longspan::cli {

class TrainingRun {
 public:
  TrainingRun(const TrainOptions& options, const Common& common)
      : options_(options), common_(common) {}
  virtual ~TrainingRun() = default;
  void run();

 protected:
  // What validation found, for the record and in a line.
  struct Judgement {
    nlohmann::json json;
    std::string text;
  };
  // Model and trainer from `config`, resumed if asked to; the batches' memory is the task's.
  void build(const RunConfig& config, const Batch& shape);
  // The settings that a fresh run takes from the options.
  RunConfig fresh(const RunConfig& config) const;
  RunConfig resumed() const;

  virtual std::string describe_data() const = 0;
  // The batches of step `step`, counted from 0.
  virtual std::span<const Batch> batches(std::uint64_t step) = 0;
  virtual Judgement judge() = 0;

  TrainOptions options_;
  const Common& common_;
  RunConfig config_;
  std::unique_ptr<Model> model_;

 private:
  void report_model();
  void evaluate(Progress& progress);
  void report_alignment(Progress& progress, std::span<const Batch> step_batches);
  void save_now() { save(options_.out, config_, *model_, *trainer_); }
  void finish(const StepReport& last, double seconds);

  Batch shape_;
  std::unique_ptr<Trainer> trainer_;
  nlohmann::json history_ = nlohmann::json::array();
  nlohmann::json alignments_ = nlohmann::json::array();
  std::uint64_t first_step_ = 0;
  std::size_t tokens_ = 0;
};

}  // namespace longspan::cli
