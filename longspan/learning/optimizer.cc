#include "longspan/learning/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "longspan/base/config.h"
#include "longspan/base/place.h"
#include "longspan/kernels/rows/vector.h"

namespace longspan {

bool reads(OptimizerKind kind, std::string_view field) {
  const bool adam = kind == OptimizerKind::kAdam || kind == OptimizerKind::kAdamW;
  if (field == "beta1" || field == "beta2" || field == "epsilon") return adam;
  return field != "momentum" || kind == OptimizerKind::kMomentum;
}

std::size_t Optimizer::state_blocks(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd:
      return 0;
    case OptimizerKind::kMomentum:
      return 1;
    default:
      return 2;
  }
}

Optimizer::Optimizer(const OptimizerConfig& config, Parameters& parameters)
    : config_(config), parameters_(parameters), state_(state_blocks(config.kind)) {
  check_numbers("optimizer", config);
  // Block by block: a model of zeros to copy from would be one block more at the peak.
  for (std::vector<float>& block : state_) block.assign(parameters.count(), 0.0F);
}

namespace {

// What a step reads and writes.
struct Blocks {
  std::span<float> gradients;
  std::span<float> values;
  std::span<const std::span<float>> averages;
};

void step_range(const OptimizerConfig& config, StepOptions options, const Blocks& blocks,
                std::size_t begin, std::size_t end) {
  options.momentum = config.momentum;
  options.beta1 = config.beta1;
  options.beta2 = config.beta2;
  options.epsilon = config.epsilon;
  options.decoupled = config.kind == OptimizerKind::kAdamW;
  const auto part = [&](std::span<float> block) { return block.subspan(begin, end - begin); };
  const auto g = part(blocks.gradients);
  const auto w = part(blocks.values);
  if (blocks.averages.empty()) {
    sgd_step(options, g, w);
  } else if (blocks.averages.size() == 1) {
    momentum_step(options, g, part(blocks.averages[0]), w);
  } else {
    adam_step(options, g, part(blocks.averages[0]), part(blocks.averages[1]), w);
  }
}

// Weight decay is for the matrices, which come first.
void step_blocks(const OptimizerConfig& config, StepOptions options, const Blocks& blocks,
                 std::size_t matrices) {
  const Place::Scope scope("optimizer", Phase::kOptimizer);
  options.weight_decay = config.weight_decay;
  step_range(config, options, blocks, 0, matrices);
  options.weight_decay = 0.0F;
  step_range(config, options, blocks, matrices, blocks.values.size());
}

}  // namespace

double Optimizer::norm(std::span<const float> gradients) {
  const Place::Scope scope("clipping", Phase::kOptimizer);
  return std::sqrt(sum_of_squares(gradients));
}

void Optimizer::clear(std::span<float> gradients) {
  const Place::Scope scope("optimizer", Phase::kOptimizer);
  fill({gradients.data(), 1, gradients.size()}, 0.0F);
}

void Optimizer::step(float learning_rate, float gradient_scale) {
  ++steps_;
  std::array<std::span<float>, 2> averages;
  std::ranges::copy(state_, averages.begin());
  const StepOptions options{
      .learning_rate = learning_rate, .gradient_scale = gradient_scale, .step = steps_};
  step_blocks(
      config_, options,
      {parameters_.gradients(), parameters_.values(), std::span(averages).first(state_.size())},
      parameters_.matrix_count());
}

void Optimizer::walk(const OptimizerConfig& config, const Parameters& parameters) {
  const Dry dry;
  const std::span<float> block = Dry::memory<float>(parameters.count());
  const std::array<std::span<float>, 2> averages = {block, block};
  clear(block);
  norm(block);
  step_blocks(config, {}, {block, block, std::span(averages).first(state_blocks(config.kind))},
              parameters.matrix_count());
}

}  // namespace longspan
