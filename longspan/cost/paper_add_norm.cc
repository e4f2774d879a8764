// 5.5 Add and norm.
//
//   y = LayerNorm(x + Sublayer(x)),  LayerNorm(x) = z·γ + β,  z = (x − E[x])/√Var[x]     (39), (40)
//
// The derivative of z is a Jacobian of d×d per token, at 9 FLOPs an element.
#include "longspan/cost/paper.h"

namespace longspan {

LayerFormula paper_add_norm(CostView view, const Polynomial& tokens) {
  using symbols::d;
  const Polynomial& M = tokens;
  LayerFormula layer{.kind = LayerKind::kAddNorm,
                     .view = view,
                     .name = "add_norm",
                     .queries = M,
                     .keys = M,
                     .parameters = 2 * d};
  const CountFormula printed_skip = {M * d, 0};  // the FLOPs of this line are headed MACCs (D3)
  const CountFormula skip = {0, M * d};
  layer.lines = {
      {"LayerNorm(x + Sublayer(x))", "(39), (40)", CostPhase::kForward, {0, 9 * M * d}},
      {"∂L/∂γ", "(41)", CostPhase::kUpdate, matmuls(M * d)},
      {"∂L/∂β", "(42)", CostPhase::kUpdate, {0, M * d}},
      {"∂L/∂z", "(43)", CostPhase::kBackward, {0, M * d}},
      {"Jacobian of z", "5.5.2", CostPhase::kBackward, {0, 9 * M * d * d}},
      {"∂L/∂X", "(44)", CostPhase::kBackward, matmuls(M * d * d)},
      {"derivative of the skip connection", "5.5.2", CostPhase::kBackward,
       view == CostView::kPrinted ? printed_skip : skip},
  };
  layer.sum_lines();
  if (view == CostView::kPrinted) {
    layer.total(CostPhase::kBackward) = {M * d * d, 11 * M * d * d + 2 * M * d};
  }
  layer.discrepancies = {3, 17, 18};
  return layer;
}

}  // namespace longspan
