// Why a step diverged: where the first number stands that is not finite. Nobody looks for it before
// a loss or a gradient has shown it, because it takes a pass over the batches or the weights.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "longspan/learning/trainer.h"

namespace longspan {

enum class NotFinite : std::uint8_t { kWeight, kLoss, kGradient };
constexpr Names<3> names_of(NotFinite /*kind*/) {
  return {"train", "divergence", {"weight", "loss", "gradient"}};
}

struct Divergence {
  std::uint64_t step = 0;  // that could not be made, or made such weights; counted from 1
  Choice<NotFinite> in = NotFinite::kLoss;
  // Of a weight or gradient the parameter, of a loss the layer; empty: no layer shows it without
  // dropout.
  std::string layer;

  // "the gradient of decoder.0.attention.qkv.weight is not finite"
  std::string text() const;
};

// Among the weights after step `step`; nothing where all are finite.
std::optional<Divergence> diverged_weights(const Model& model, std::uint64_t step);

// Of a step that was not finite, from the weights and gradients that it left and its batches.
Divergence find_divergence(Model& model, const StepReport& report, std::span<const Batch> batches);

}  // namespace longspan
