// A run of training: steps, evaluations, checkpoints, early stopping. Nothing is printed: an
// observer hears how it goes.
//
// A run is a function of its configuration: interrupted and resumed it ends with the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "longspan/learning/alignment.h"
#include "longspan/training/evaluate.h"
#include "longspan/training/run_directory.h"
#include "longspan/training/run_lock.h"

namespace longspan {

struct TrainingOptions {
  // Of a fresh run: its model beyond what the task needs, its learning, and the task's options; of
  // a resumed one only the option `data` counts.
  RunConfig run;
  std::string out = "longspan-model";
  std::uint64_t steps = 2000;
  std::uint64_t epochs = 0;          // passes over the training examples, instead of steps
  std::uint64_t schedule_steps = 0;  // 0: as many as steps
  std::uint64_t save_every = 500;    // 0: at the end only
  std::uint64_t eval_every = 500;    // 0: never
  std::uint64_t align_every = 0;
  std::size_t eval_examples = 200;  // 0: all
  std::size_t hidden = 1024;        // width of a perceptron
  std::uint64_t patience = 0;       // evaluations without a better loss until it stops; 0: never
  bool keep_best = false;           // the best checkpoint stays in `out`/best
  bool resume = false;
  bool overwrite = false;
};

struct JudgedStep {
  std::uint64_t step = 0;
  Judgement judgement;
};

struct AlignedStep {
  std::uint64_t step = 0;
  double mean_cosine = 0.0;
  std::vector<Alignment> parameters;
};

class TrainingObserver {
 public:
  virtual ~TrainingObserver() = default;
  // Asked before every step and every batch of an evaluation.
  virtual bool stops() { return false; }
  virtual void stepped(const StepReport& /*report*/, double /*tokens_per_second*/) {}
  virtual void judged(const JudgedStep& /*judged*/) {}
  virtual void aligned(const AlignedStep& /*aligned*/) {}
};

struct TrainingResult {
  StepReport last;
  double seconds = 0.0;
  double tokens_per_second = 0.0;
  bool interrupted = false;  // the observer stopped it
  bool out_of_patience = false;
  Patience patience;
  std::vector<JudgedStep> judged;
  std::vector<AlignedStep> aligned;
};

class TrainingRun {
 public:
  // Opens the data, builds the model and books a step; throws Error, before anything is written,
  // for what cannot be. From here, or from run() where there is no directory yet, until the end of
  // run() nobody else may train in it.
  explicit TrainingRun(const TrainingOptions& options);

  // Saves at the beginning, now and then, and at the end.
  TrainingResult run(TrainingObserver& observer);

  const RunConfig& config() const { return config_; }
  const Task& task() const { return *task_; }
  const Model& model() const { return *model_; }
  std::uint64_t steps() const { return options_.steps; }
  std::uint64_t first_step() const { return first_step_; }
  // Weights, gradients and the optimiser's averages.
  std::size_t weight_bytes() const;
  std::size_t activation_bytes() const { return trainer_->rule().walk(shape_).peak; }
  // Of an update, without the optimiser.
  Work step_work() const;

 private:
  void begin();
  void go_on();
  void require_free() const;
  std::span<const Batch> batches(std::uint64_t step);
  void judge(TrainingObserver& observer, TrainingResult& result);
  void align(TrainingObserver& observer, std::span<const Batch> batches, TrainingResult& result);
  void save_now() { save(options_.out, config_, *model_, *trainer_, patience_); }

  TrainingOptions options_;
  RunConfig config_;
  std::unique_ptr<Task> task_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Trainer> trainer_;
  Batch shape_;
  std::vector<BatchMemory> batch_memory_;  // of the batches of an update
  std::vector<Batch> batches_;
  Patience patience_;
  std::uint64_t first_step_ = 0;
  std::optional<RunLock> lock_;
};

}  // namespace longspan
