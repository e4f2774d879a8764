// The layers as an efficient engine executes them, with exact softmax attention, in closed form.
//
// A reduction of n terms costs n operations; GEMMs add in place; 1/√d_k is applied to Q;
// LayerNorm keeps x̂ and 1/σ; embedding is a lookup; the target is an index. No Jacobian is built:
//   softmax    dS = P ⊙ (dP − Σ P⊙dP)                                     4n FLOPs a row, not 3n²
//   LayerNorm  dx = (1/σ)(g − mean(g) − x̂·mean(g⊙x̂)), g = dy⊙γ            8d + 2 a row, not 11d²
// What this engine's layers count beyond that is in their own cost functions.
#pragma once

#include <optional>

#include "longspan/cost/formula.h"
#include "longspan/cost/paper.h"

namespace longspan {

struct ExecutedAttention {
  AttentionRole role = AttentionRole::kSelf;
  Polynomial queries;
  Polynomial keys;
  // Pairs of query and key that are computed, queries·keys if nothing is said. n(n+1)/2 is no
  // polynomial with integer coefficients, so a causal mask gives a symbol.
  std::optional<Polynomial> pairs;
  bool recompute_scores = false;  // backward computes Q·Kᵀ again instead of reading what was kept
};

LayerFormula executed_embedding(const Polynomial& tokens);
LayerFormula executed_attention(const ExecutedAttention& shape);
LayerFormula executed_feed_forward(const Polynomial& tokens,
                                   Integer gelu_derivative = kGeluDerivativeFlops);
LayerFormula executed_add_norm(const Polynomial& tokens);
LayerFormula executed_softmax_layer(const Polynomial& tokens);
// In the vocabulary's space the queries are one-hot, so that Q·Kᵀ is a gather.
LayerFormula executed_error_projection(const Polynomial& encoder_tokens,
                                       const Polynomial& decoder_tokens, ErrorSpace space);

}  // namespace longspan
