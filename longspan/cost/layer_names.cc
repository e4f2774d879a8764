#include "longspan/cost/layer_names.h"

#include <algorithm>
#include <array>

namespace longspan {
namespace {

using enum ReportKind;

const std::array<LayerName, 11> kNames = {
    {{kEmbedding, Embedding::kMeter, "embedding", {4, 16}},
     {kAttention, MultiHeadAttention::kMeter, "mha", {1, 2, 15, 16}},
     {kCross, MultiHeadAttention::kCrossMeter, "cross_mha", {1, 2, 15, 16}},
     {kAddNorm, Residual::kNormMeter, "add_norm", {17}},
     {kFeedForward, FeedForward::kMeter, "ffn", {6, 7}},
     {kHidden, Mlp::kMeter, "hidden", {}},
     {kStreams, Stack::kStreamsMeter, "streams", {}},
     {kStages, Stages::kMeter, "stages", {}},
     {kFinalNorm, Stack::kFinalMeter, "final_norm", {}},
     {kHead, Head::kTransformMeter, "head", {}},
     {kOutput, Head::kMeter, "softmax", {12}}}};

}  // namespace

LayerName layer_name(std::string_view meter) {
  const auto* const at = std::ranges::find(kNames, meter, &LayerName::meter);
  return at != kNames.end() ? *at : LayerName{kMixer, meter, meter, {}};
}

LayerName layer_name(ReportKind kind) { return *std::ranges::find(kNames, kind, &LayerName::kind); }

std::string StackNames::name(const LayerName& layer) const {
  const bool masked = layer.kind == kAttention && causal;
  return prefix + (masked ? "masked_" : "") + std::string(layer.name);
}

Integer StackNames::count(const LayerName& layer) const {
  const auto all = static_cast<Integer>(blocks);
  switch (layer.kind) {
    case kAttention:
    case kCross:
    case kMixer:
    case kFeedForward:
      return all;
    case kAddNorm:
      return (cross ? 3 : 2) * all;
    default:
      return 1;
  }
}

StackNames encoder_names(const Workload& w) {
  return {w.has_both() ? "encoder_" : "", false, false, w.model.layers};
}

StackNames decoder_names(const Workload& w) {
  if (!w.has_both()) return {"", true, false, w.model.layers};
  return {"decoder_", true, true, w.model.decoder_layers};
}

StackNames stack_names(const Workload& w, bool decoder) {
  const bool only_decoder = w.model.family == Family::kDecoder;
  return decoder || only_decoder ? decoder_names(w) : encoder_names(w);
}

}  // namespace longspan
