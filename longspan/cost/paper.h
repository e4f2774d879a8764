// The layers of a transformer as the paper counts them, every line with its equation; one file per
// layer. `view` is printed or corrected; executed_layers.h has the third.
//
// The paper: Pau and Aymone, "Mathematical Formulation of Learning and Its Computational Complexity
// for Transformers' Layers", Eng 2024, 5(1), doi:10.3390/eng5010003. Its conventions: softmax of n
// numbers costs 5n FLOPs, GELU 8 and its derivative 13; M = queries, N = keys, d = d_model,
// h = heads, f = d_ff, v = vocabulary.
#pragma once

#include "longspan/cost/formula.h"
#include "longspan/learning/feedback.h"

namespace longspan {

inline constexpr int kGeluFlops = 8;
inline constexpr int kGeluDerivativeFlops =
    13;  // assumed: 10 to 15, by what the forward pass keeps

enum class AttentionRole : std::uint8_t { kSelf, kMasked, kCross };

LayerFormula paper_embedding(CostView view, const Polynomial& tokens);
LayerFormula paper_attention(CostView view, AttentionRole role, const Polynomial& queries,
                             const Polynomial& keys);
LayerFormula paper_feed_forward(CostView view, const Polynomial& tokens,
                                Integer gelu_derivative = kGeluDerivativeFlops);
LayerFormula paper_add_norm(CostView view, const Polynomial& tokens);
LayerFormula paper_softmax_layer(CostView view, const Polynomial& tokens);
// The N tokens of the encoder attend to the errors at the M tokens of the decoder.
LayerFormula paper_error_projection(CostView view, const Polynomial& encoder_tokens,
                                    const Polynomial& decoder_tokens, ErrorSpace space);

std::string_view name_of(AttentionRole role);  // "mha", "masked_mha", "cross_mha"

}  // namespace longspan
