#include <algorithm>

#include "longspan/cost/counts.h"
#include "longspan/cost/layer_names.h"
#include "longspan/layers/branches.h"

namespace longspan {
namespace {

LayerName layer_of(const Parameter& p) {
  switch (p.role) {
    case Role::kLastLayer:
      return layer_name(ReportKind::kOutput);
    case Role::kHead:
      return layer_name(ReportKind::kHead);
    case Role::kEmbedding:
      return layer_name(ReportKind::kEmbedding);
    case Role::kHidden:
      return layer_name(ReportKind::kHidden);
    case Role::kNorm:
      return layer_name(p.place.block ? ReportKind::kAddNorm : ReportKind::kFinalNorm);
    default:
      return layer_name(meter_at(p.place.layer));
  }
}

StackNames stack_of(const Workload& w, const Parameter& p) {
  if (p.place.part == ModelPart::kHead) return {};
  return stack_names(w, p.place.part == ModelPart::kDecoder);
}

}  // namespace

ParameterCounts count_parameters(const Workload& w, const Model& model) {
  ParameterCounts out;
  const auto stored = static_cast<Integer>(w.model.stored_numbers);
  if (stored > 0) {
    out.layers.push_back({.name = "stored", .count = 1, .parameters = stored});
    out.total += stored;
  }
  for (const Parameter& p : model.parameters().all()) {
    const auto size = static_cast<Integer>(p.size());
    if (p.fill) {
      out.drawn += size;
      continue;
    }
    const LayerName layer = layer_of(p);
    if (layer.kind == ReportKind::kOutput && !w.output_layer) continue;
    out.total += size;
    if (!p.constant) {
      out.trained += size;
      if (!p.is_vector) out.matrices += size;
    }
    const StackNames stack = stack_of(w, p);
    const std::string name = stack.name(layer);
    auto at = std::ranges::find(out.layers, name, &ParameterCounts::Layer::name);
    if (at == out.layers.end()) {
      at = out.layers.insert(at, {.name = name, .count = stack.count(layer)});
    }
    at->parameters += size;
  }
  return out;
}

}  // namespace longspan
