// 5.4 Feed-forward network.
//
//   FFN(x) = GELU(x·W_1 + b_1)·W_2 + b_2                                                       (38)
#include "longspan/cost/paper.h"

namespace longspan {

LayerFormula paper_feed_forward(CostView view, const Polynomial& tokens, Integer gelu_derivative) {
  using symbols::d, symbols::f;
  const Polynomial& M = tokens;
  LayerFormula layer{.kind = LayerKind::kFeedForward,
                     .view = view,
                     .name = "ffn",
                     .queries = M,
                     .keys = M,
                     .parameters = 2 * d * f + f + d};
  layer.lines = {
      {"GELU(x·W_1 + b_1)·W_2 + b_2", "(38)", CostPhase::kForward,
       matmuls(2 * M * d * f, (kGeluFlops + 1) * M * f + M * d)},
      {"∂L/∂x", "5.4.2", CostPhase::kBackward, matmuls(2 * M * f * d, gelu_derivative * M * f)},
      {"∂L/∂W_1, ∂L/∂W_2", "5.4.3", CostPhase::kUpdate, matmuls(2 * M * f * d)},
  };
  layer.sum_lines();
  layer.discrepancies = {6, 7};
  return layer;
}

}  // namespace longspan
