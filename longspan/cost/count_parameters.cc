#include <algorithm>

#include "longspan/cost/counts.h"
#include "longspan/cost/layer_names.h"

namespace longspan {
namespace {

struct Filed {
  StackNames stack;
  std::string_view layer;
};

std::string_view layer_of(const Parameter& p) {
  switch (p.role) {
    case Role::kLastLayer:
      return "softmax";
    case Role::kHead:
      return "head";
    case Role::kEmbedding:
      return "embedding";
    case Role::kHidden:
      return "hidden";
    case Role::kNorm:
      return p.place.block ? "add_norm" : "final_norm";
    default:  // of a branch
      return p.place.layer == "feed_forward" ? "ffn"
             : p.place.layer == "cross"      ? "cross_mha"
                                             : "mha";
  }
}

Filed place_of(const Workload& w, const Parameter& p) {
  if (p.place.part == "head") return {{}, layer_of(p)};
  return {stack_names(w, p.place.part == "decoder"), layer_of(p)};
}

}  // namespace

ParameterCounts count_parameters(const Workload& w, const Model& model) {
  ParameterCounts out;
  for (const Parameter& p : model.parameters().all()) {
    const auto size = static_cast<Integer>(p.size());
    if (p.fill) {
      out.drawn += size;
      continue;
    }
    const Filed place = place_of(w, p);
    if (place.layer == "softmax" && !w.output_layer) continue;
    out.total += size;
    if (!p.constant) {
      out.trained += size;
      if (!p.is_vector) out.matrices += size;
    }
    const std::string name = place.stack.name(place.layer);
    auto at = std::ranges::find(out.layers, name, &ParameterCounts::Layer::name);
    if (at == out.layers.end()) {
      at = out.layers.insert(at, {.name = name, .count = place.stack.count(place.layer)});
    }
    at->parameters += size;
  }
  return out;
}

}  // namespace longspan
