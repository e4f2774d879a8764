#include "longspan/cost/layer_names.h"

#include <algorithm>
#include <array>

namespace longspan {
namespace {

const std::array<LayerName, 11> kNames = {
    {{ReportKind::kEmbedding, Embedding::kMeter, "embedding", {4, 16}},
     {ReportKind::kAttention, MultiHeadAttention::kMeter, "mha", {1, 2, 15, 16}},
     {ReportKind::kCross, MultiHeadAttention::kCrossMeter, "cross_mha", {1, 2, 15, 16}},
     {ReportKind::kAddNorm, Residual::kNormMeter, "add_norm", {17}},
     {ReportKind::kFeedForward, FeedForward::kMeter, "ffn", {6, 7}},
     {ReportKind::kHidden, Mlp::kMeter, "hidden", {}},
     {ReportKind::kStreams, Stack::kStreamsMeter, "streams", {}},
     {ReportKind::kStages, Stages::kMeter, "stages", {}},
     {ReportKind::kFinalNorm, Stack::kFinalMeter, "final_norm", {}},
     {ReportKind::kHead, Head::kTransformMeter, "head", {}},
     {ReportKind::kOutput, Head::kMeter, "softmax", {12}}}};

}  // namespace

LayerName layer_name(std::string_view meter) {
  const auto* const at = std::ranges::find(kNames, meter, &LayerName::meter);
  return at != kNames.end() ? *at : LayerName{ReportKind::kMixer, meter, meter, {}};
}

LayerName layer_name(ReportKind kind) { return *std::ranges::find(kNames, kind, &LayerName::kind); }

std::string StackNames::name(const LayerName& layer) const {
  const bool masked = layer.kind == ReportKind::kAttention && causal;
  return prefix + (masked ? "masked_" : "") + std::string(layer.name);
}

Integer StackNames::count(const LayerName& layer) const {
  const auto all = static_cast<Integer>(blocks);
  switch (layer.kind) {
    case ReportKind::kAttention:
    case ReportKind::kCross:
    case ReportKind::kMixer:
    case ReportKind::kFeedForward:
      return all;
    case ReportKind::kAddNorm:
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
