// A trainer: rule, schedule, clipping and optimiser around one model.
//
// Its state is the step number, the weights and the optimiser's averages; everything random is a
// function of the seed and the step, so that these are all that a checkpoint needs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "longspan/base/number.h"
#include "longspan/learning/optimizer.h"
#include "longspan/learning/rule.h"
#include "longspan/learning/schedule.h"
#include "longspan/models/model.h"

namespace longspan {

struct TrainConfig {
  std::string rule = "bp";
  Feedback feedback;  // of rules that have no backward pass
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  float clip = 1.0F;  // largest norm of the gradient; 0: none
  std::uint64_t seed = 1337;

  bool operator==(const TrainConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("rule", rule);
    feedback.visit(see);
    optimizer.visit(see);
    schedule.visit(see);
    see("clip", clip, from_to(0, 1e9));
    see("seed", seed);
  }
};

struct StepReport {
  std::uint64_t step = 0;  // counted from 1: steps done after this one
  double loss = 0.0;       // mean over the counted targets
  double gradient_norm = 0.0;
  float learning_rate = 0.0F;
  std::size_t tokens = 0;
  // False when the loss or gradient was not finite: the weights were left as they were.
  bool finite = true;
  bool stopped = false;  // before the update
};

class Trainer {
 public:
  // The model's weights must be allocated.
  Trainer(Model& model, const TrainConfig& config);

  // One update from the mean loss over all targets of the micro-batches. A single one may have
  // beside it what the layers remember of earlier segments. `proven` is called before the update,
  // once loss and gradient are finite: the weights of the steps so far have then shown that they
  // are good. `stops` is asked between batches; where it says so the step is given up.
  StepReport step(std::span<const Batch> micro_batches, std::span<History> histories = {},
                  const std::function<void()>& proven = {},
                  const std::function<bool()>& stops = {});

  std::uint64_t steps() const { return optimizer_.steps(); }
  void set_steps(std::uint64_t steps) { optimizer_.set_steps(steps); }
  Optimizer& optimizer() { return optimizer_; }
  Rule& rule() { return *rule_; }
  const TrainConfig& config() const { return config_; }

 private:
  Model& model_;
  TrainConfig config_;
  std::unique_ptr<Rule> rule_;
  Optimizer optimizer_;
};

}  // namespace longspan
