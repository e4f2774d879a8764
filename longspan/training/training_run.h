// A run of training: steps, evaluations, checkpoints, early stopping. Nothing is printed: an
// observer hears how it goes.
//
// A run is a function of its configuration: interrupted and resumed it ends with the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "longspan/io/process_lock.h"
#include "longspan/learning/alignment.h"
#include "longspan/learning/divergence.h"
#include "longspan/training/evaluate.h"
#include "longspan/training/metrics_log.h"
#include "longspan/training/packing.h"
#include "longspan/training/run_directory.h"
#include "longspan/training/teacher.h"

namespace longspan {

// What the task says of the model; the rest is the user's. `hidden` is the width of a perceptron.
void fit(const ModelNeeds& needs, std::size_t hidden, ModelConfig& model);

struct TrainingOptions {
  // Of a fresh run: its model beyond what the task needs, its learning, the task's options and its
  // course; of a resumed one only what is asked for.
  RunConfig run;
  std::string out = "longspan-model";
  std::uint64_t epochs = 0;          // passes over the training examples, instead of steps
  std::uint64_t schedule_steps = 0;  // 0: as many as steps
  double seconds = 0.0;              // after which it saves and ends; 0: never
  std::size_t hidden = 1024;         // width of a perceptron
  bool resume = false;
  bool overwrite = false;
  bool saves = true;  // or nothing is kept of it but what run() returns
  // The fields of `run` that a resumed one is asked for, as in config.json, "model/heads", and
  // what people call them, "--heads".
  std::map<std::string, std::string> asked = {};
  // Hears of the configuration, fresh or resumed, before a model is made of it; may throw Error.
  std::function<void(const RunConfig&)> review = {};
};

// What a resumed run was asked to do differently from now on.
struct RunChange {
  std::string name;  // "--steps"
  std::string before;
  std::string after;
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
  // `per_second` counts the task's units.
  virtual void stepped(const StepReport& /*report*/, double /*per_second*/) {}
  virtual void judged(const JudgedStep& /*judged*/) {}
  virtual void aligned(const AlignedStep& /*aligned*/) {}
};

struct TrainingResult {
  StepReport last;
  std::uint64_t saved = 0;  // the step of the checkpoint
  double seconds = 0.0;
  double per_second = 0.0;  // of the task's units
  std::optional<Divergence> divergence;
  bool interrupted = false;  // the observer stopped it
  bool out_of_patience = false;
  bool out_of_time = false;
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

  // Saves at the beginning, now and then, and at the end; where it diverged, no more: the checkpoint
  // is then the last one whose weights gave a loss and a gradient.
  TrainingResult run(TrainingObserver& observer);

  // Of the model as it is, on all examples of the split.
  Judgement evaluate(Split split, TrainingObserver& observer);

  const RunConfig& config() const { return config_; }
  const Task& task() const { return *task_; }
  const Model& model() const { return *model_; }
  std::uint64_t steps() const { return config_.course.steps; }
  std::uint64_t first_step() const { return first_step_; }
  // Whether a resumed run was as far as it goes before: it does nothing then.
  bool was_done() const { return options_.resume && first_step_ >= steps() && !patience_.due; }
  const std::vector<RunChange>& changes() const { return changes_; }
  // Weights, gradients and the optimiser's averages.
  std::size_t weight_bytes() const;
  std::size_t activation_bytes() const { return trainer_->rule().walk(shape_).peak; }
  // Of an update, without the optimiser and without what the teacher does.
  Work step_work() const;
  // Null: it has none. Its work is a forward pass of every batch.
  const Teacher* teacher() const { return teacher_ ? &*teacher_ : nullptr; }
  Work teacher_work() const;

 private:
  void begin();
  void go_on();
  void open_saved_task();
  void find_saved_teacher();
  void take_changes(bool had_course);
  // What a configuration lacks until the task is open.
  void complete(RunConfig& config) const;
  void check_place();
  void require_free() const;
  void check_best() const;
  // What the rule is given at a step: the task's batches, which stay in tasked_, without padding.
  std::span<const Batch> batches(std::uint64_t step);
  // A step, with what follows it.
  struct Pace;
  void judge(TrainingObserver& observer, const Pace& pace, TrainingResult& result);
  void align(TrainingObserver& observer, std::span<const Batch> batches, TrainingResult& result);
  void advance(TrainingObserver& observer, Pace& pace, TrainingResult& result);
  bool exhausted() const {
    return config_.course.patience > 0 && patience_.waited >= config_.course.patience;
  }
  // Unless the weights are not finite.
  void save_now(TrainingResult& result);
  void forget_best() const;
  void lock();

  TrainingOptions options_;
  RunConfig config_;
  std::unique_ptr<Task> task_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Trainer> trainer_;
  std::optional<Teacher> teacher_;
  Batch shape_;
  std::vector<BatchMemory> batch_memory_;  // of the batches of an update
  std::vector<Packing> packings_;
  std::vector<Batch> tasked_;
  std::vector<Batch> batches_;
  Patience patience_;
  std::vector<RunChange> changes_;
  bool save_due_ = false;  // once the next step has proven the weights
  std::uint64_t first_step_ = 0;
  std::optional<ProcessLock> lock_;
  std::optional<MetricsLog> log_;
};

}  // namespace longspan
