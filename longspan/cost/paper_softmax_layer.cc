// 5.6 Softmax layer.
//
//   s = softmax(Z),  Z = X·W_S  with W_S d×v                                                   (45)
#include "longspan/cost/paper.h"

namespace longspan {

LayerFormula paper_softmax_layer(CostView view, const Polynomial& tokens) {
  using symbols::d, symbols::v;
  const Polynomial& M = tokens;
  LayerFormula layer{.kind = LayerKind::kSoftmax,
                     .view = view,
                     .name = "softmax",
                     .queries = M,
                     .keys = M,
                     .parameters = d * v};
  layer.lines = {
      {"softmax(X·W_S)", "(45)", CostPhase::kForward, matmuls(M * d * v, 5 * M * v)},
      {"∂L/∂Z, called free", "5.6.2", CostPhase::kBackward, {}},
      {"∂L/∂X", "(46)", CostPhase::kBackward, matmuls(M * v * d)},
      {"∂L/∂W_S", "(47)", CostPhase::kUpdate, matmuls(d * M * v)},
  };
  layer.sum_lines();
  layer.discrepancies = {12};
  return layer;
}

}  // namespace longspan
