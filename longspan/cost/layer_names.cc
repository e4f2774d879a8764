#include "longspan/cost/layer_names.h"

#include <array>

namespace longspan {

std::span<const LayerName> layer_names() {
  static const std::array<LayerName, 11> kNames = {{{"embedding", "embedding", {4, 16}},
                                                    {"mha", "mha", {1, 2, 15, 16}},
                                                    {"cross", "cross_mha", {1, 2, 15, 16}},
                                                    {"fnet", "fnet", {}},
                                                    {"add & norm", "add_norm", {17}},
                                                    {"ffn", "ffn", {6, 7}},
                                                    {"streams", "streams", {}},
                                                    {"stages", "stages", {}},
                                                    {"final norm", "final_norm", {}},
                                                    {"head", "head", {}},
                                                    {"softmax layer", "softmax", {12}}}};
  return kNames;
}

std::string StackNames::name(std::string_view layer) const {
  const bool masked = layer == "mha" && causal;
  return prefix + (masked ? "masked_" : "") + std::string(layer);
}

Integer StackNames::count(std::string_view layer) const {
  const auto all = static_cast<Integer>(blocks);
  if (layer == "mha" || layer == "cross_mha" || layer == "fnet" || layer == "ffn") return all;
  if (layer == "add_norm") return (cross ? 3 : 2) * all;
  return 1;
}

StackNames encoder_names(const Workload& w) {
  return {w.has_both() ? "encoder_" : "", false, false, w.model.layers};
}

StackNames decoder_names(const Workload& w) {
  if (!w.has_both()) return {"", true, false, w.model.layers};
  return {"decoder_", true, true, w.model.decoder_layers};
}

StackNames stack_names(const Workload& w, bool decoder) {
  const bool only_decoder = w.model.family == "decoder";
  return decoder || only_decoder ? decoder_names(w) : encoder_names(w);
}

}  // namespace longspan
