// Optimisers: from gradients to steps, on the model's flat blocks.
//
//   sgd        w −= η·g
//   momentum   v = μ·v + g;                    w −= η·v
//   adam       m, v = moving averages of g, g²; w −= η·m̂/(√v̂ + ε)
//   adamw      the same, with weight decay taken off w directly (Loshchilov & Hutter, 2019)
//
// Weight decay touches matrices only, never biases or norms.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "longspan/base/choice.h"
#include "longspan/base/parameter.h"

namespace longspan {

enum class OptimizerKind : std::uint8_t { kSgd, kMomentum, kAdam, kAdamW };
constexpr Names<4> names_of(OptimizerKind /*kind*/) {
  return {"optimizer", "optimizer", {"sgd", "momentum", "adam", "adamw"}};
}

struct OptimizerConfig {
  Choice<OptimizerKind> kind = OptimizerKind::kAdamW;
  float weight_decay = 0.1F;
  float momentum = 0.9F;
  double beta1 = 0.9;
  double beta2 = 0.99;
  float epsilon = 1e-8F;

  bool operator==(const OptimizerConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("optimizer", kind);
    see("weight_decay", weight_decay, from_to(0, 1000));
    see("momentum", momentum, from_below(0, 1));
    see("beta1", beta1, from_below(0, 1));
    see("beta2", beta2, from_below(0, 1));
    see("epsilon", epsilon, above_to(0, 1));
  }
};

// Whether an optimiser of this kind reads a field of its config.
bool reads(OptimizerKind kind, std::string_view field);

class Optimizer {
 public:
  Optimizer(const OptimizerConfig& config, Parameters& parameters);

  // One update from the parameters' gradients, each scaled by `gradient_scale`.
  void step(float learning_rate, float gradient_scale);

  std::uint64_t steps() const { return steps_; }
  void set_steps(std::uint64_t steps) { steps_ = steps; }
  // The moving averages, to be saved and restored.
  std::vector<std::vector<float>>& state() { return state_; }
  // What comes before: the gradients to zero; their norm.
  static void clear(std::span<float> gradients);
  static double norm(std::span<const float> gradients);
  // All of it dry.
  static void walk(const OptimizerConfig& config, const Parameters& parameters);
  // Numbers kept for each parameter.
  static std::size_t state_blocks(OptimizerKind kind);

 private:
  OptimizerConfig config_;
  Parameters& parameters_;
  std::vector<std::vector<float>> state_;
  std::uint64_t steps_ = 0;
};

}  // namespace longspan
