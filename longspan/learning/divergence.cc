#include "longspan/learning/divergence.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "longspan/kernels/rows/vector.h"

namespace longspan {

namespace {

// The way back ends with the parameters that were declared first.
std::string first_gradient(const Model& model) {
  const auto& all = model.parameters().all();
  const auto found = std::find_if(all.rbegin(), all.rend(),
                                  [](const Parameter& p) { return !all_finite(p.gradient); });
  return found == all.rend() ? "" : found->name;
}

}  // namespace

std::string Divergence::text() const {
  if (in == NotFinite::kWeight) return fmt::format("the weight {} is not finite", layer);
  if (in == NotFinite::kGradient) return fmt::format("the gradient of {} is not finite", layer);
  if (layer.empty()) return "the loss is not finite";
  return fmt::format("the loss is not finite, and first the output of {}", layer);
}

std::optional<Divergence> diverged_weights(const Model& model, std::uint64_t step) {
  for (const Parameter& p : model.parameters().all()) {
    if (!all_finite(p.value)) return Divergence{step, NotFinite::kWeight, p.name};
  }
  return std::nullopt;
}

Divergence find_divergence(Model& model, const StepReport& report, std::span<const Batch> batches) {
  const std::uint64_t step = report.step + 1;
  if (const auto weights = diverged_weights(model, step)) return *weights;
  if (std::isfinite(report.loss)) return {step, NotFinite::kGradient, first_gradient(model)};
  for (const Batch& batch : batches) {
    std::string layer = model.first_not_finite(batch);
    if (!layer.empty()) return {step, NotFinite::kLoss, std::move(layer)};
  }
  return {step, NotFinite::kLoss, ""};
}

}  // namespace longspan
