// The queries, keys and values that a trained model's attention really sees.
#pragma once

#include <cstdint>
#include <span>

#include "longspan/compare/attention_run.h"
#include "longspan/models/model.h"

namespace longspan {

struct CapturedAttention {
  AttentionCase shape;  // of the tensors
  AttentionTensors tensors;
};

// Of the first `heads` heads of a layer, for one sequence. Key heads that query heads share are
// repeated.
CapturedAttention capture_attention(Model& model, std::span<const std::int32_t> tokens,
                                    std::size_t layer, std::size_t heads);

}  // namespace longspan
