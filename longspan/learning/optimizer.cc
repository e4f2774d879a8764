#include "longspan/learning/optimizer.h"

#include "longspan/base/config.h"
#include "longspan/base/cost.h"
#include "longspan/kernels/vector.h"

namespace longspan {

std::size_t Optimizer::state_blocks(const OptimizerConfig& config) {
  if (config.kind == "sgd") return 0;
  if (config.kind == "momentum") return 1;
  if (config.kind == "adam" || config.kind == "adamw") return 2;
  throw_unknown("optimizer", "optimizer", config.kind, {"sgd", "momentum", "adam", "adamw"});
}

Optimizer::Optimizer(const OptimizerConfig& config, Parameters& parameters)
    : config_(config), parameters_(parameters), state_(state_blocks(config)) {
  // Block by block: a model of zeros to copy from would be one block more at the peak.
  for (std::vector<float>& block : state_) block.assign(parameters.count(), 0.0F);
}

void Optimizer::step(float learning_rate, float gradient_scale) {
  const Meter::Scope scope("optimizer", Phase::kOptimizer);
  ++steps_;
  const std::size_t matrices = parameters_.matrix_count();
  step_range(0, matrices, learning_rate, gradient_scale, config_.weight_decay);
  step_range(matrices, parameters_.count(), learning_rate, gradient_scale, 0.0F);
}

void Optimizer::step_range(std::size_t begin, std::size_t end, float learning_rate,
                           float gradient_scale, float decay) {
  const auto part = [&](std::span<float> block) { return block.subspan(begin, end - begin); };
  const StepOptions options{.learning_rate = learning_rate,
                            .gradient_scale = gradient_scale,
                            .weight_decay = decay,
                            .momentum = config_.momentum,
                            .beta1 = config_.beta1,
                            .beta2 = config_.beta2,
                            .epsilon = config_.epsilon,
                            .step = steps_,
                            .decoupled = config_.kind == "adamw"};
  const auto g = part(parameters_.gradients());
  const auto w = part(parameters_.values());
  if (state_.empty()) {
    sgd_step(options, g, w);
  } else if (state_.size() == 1) {
    momentum_step(options, g, part(state_[0]), w);
  } else {
    adam_step(options, g, part(state_[0]), part(state_[1]), w);
  }
}

Work Optimizer::cost() const {
  constexpr std::uint64_t kPerElement[] = {2, 4, 12};
  const std::uint64_t decayed = config_.weight_decay == 0.0F ? 0 : parameters_.matrix_count();
  return flops(Kind::kOptimizer, kPerElement[state_.size()] * parameters_.count() + 2 * decayed);
}

}  // namespace longspan
