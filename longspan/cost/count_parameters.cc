#include <algorithm>

#include "longspan/cost/counts.h"
#include "longspan/cost/layer_names.h"

namespace longspan {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

struct Filed {
  StackNames stack;
  std::string_view layer;
};

// "decoder.3.feed_forward.in.weight" → the FFN of the decoder.
Filed place_of(const Workload& w, std::string_view parameter) {
  if (parameter.starts_with("head.output")) return {{}, "softmax"};
  if (parameter.starts_with("head.")) return {{}, "head"};
  Filed place{stack_names(w, parameter.starts_with("decoder")), "final_norm"};
  if (contains(parameter, "embedding.")) place.layer = "embedding";
  if (contains(parameter, "_norm.")) place.layer = "add_norm";
  if (contains(parameter, ".feed_forward.")) place.layer = "ffn";
  if (contains(parameter, ".cross.")) place.layer = "cross_mha";
  if (contains(parameter, ".attention.")) place.layer = "mha";
  return place;
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
    const Filed place = place_of(w, p.name);
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
