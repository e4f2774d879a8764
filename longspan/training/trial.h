// One training of a comparison: from a seed, under a protocol, with nothing left on the disk.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "longspan/training/training_run.h"

namespace longspan {

// The run of a mechanism under a protocol: "conv:width=2|flash" of a protocol with a layer before.
RunConfig trial_config(std::string_view task, const TaskOptions& options, const Protocol& protocol,
                       std::string_view attention, std::uint64_t seed);

// 0 of none.
double median_of(std::vector<double> values);

// What guessing without reading reaches by this metric, where the task says it: the most common
// class, the frequency of tokens, a Poisson process.
std::optional<double> guessed(const Judgement& judgement, std::string_view metric);

struct TrialResult {
  std::vector<JudgedStep> curve;
  Judgement judgement;        // of the test split, or of what is held out where there is none
  double step_seconds = 0.0;  // the median
  double seconds = 0.0;       // in all
  std::uint64_t parameters = 0;
  std::size_t memory = 0;  // of a step: weights, gradients, the optimiser's averages, activations
  std::optional<std::size_t> state;  // bytes that a sequence takes while it is decoded
  std::optional<Divergence> divergence;
  bool interrupted = false;
};

// Is told after every step how many there were, and may stop the trial.
using TrialObserver = std::function<bool(std::uint64_t step)>;
TrialResult run_trial(const RunConfig& config, const TrialObserver& observer);

// What is to be known before a trial: a model that was not allocated, and the shape of a batch.
struct TrialModel {
  std::unique_ptr<Model> model;
  Batch shape;
};
TrialModel trial_model(const RunConfig& config);

}  // namespace longspan
