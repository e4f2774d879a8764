// How a report names the layers of this engine: as the paper does, one stack beside the other.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "longspan/cost/workload.h"

namespace longspan {

// In the order of a report.
enum class ReportKind : std::uint8_t {
  kEmbedding,
  kAttention,
  kCross,
  kMixer,  // any other branch
  kAddNorm,
  kFeedForward,
  kHidden,
  kStreams,
  kStages,
  kFinalNorm,
  kHead,
  kOutput,
};

struct LayerName {
  ReportKind kind = ReportKind::kMixer;
  std::string_view meter;          // of the engine: "add & norm"
  std::string_view name;           // of the report: "add_norm"
  std::vector<int> discrepancies;  // why it differs from the paper's: 17 for D17
};
// A layer that the table does not have is a mixer, under the name it has itself.
LayerName layer_name(std::string_view meter);
LayerName layer_name(ReportKind kind);

// What a stack is called in names of layers, and how many of each layer it has.
struct StackNames {
  std::string prefix;  // "encoder_" where there are two
  bool causal = false;
  bool cross = false;
  std::size_t blocks = 0;

  std::string name(const LayerName& layer) const;
  Integer count(const LayerName& layer) const;
};
StackNames encoder_names(const Workload& workload);
StackNames decoder_names(const Workload& workload);
// Of the decoder if it is named or there is no other.
StackNames stack_names(const Workload& workload, bool decoder);

}  // namespace longspan
