// 5.3 Multi-head attention: M queries, N keys.
//
//   Q, K, V = X_Q·W_Q, X_K·W_K, X_V·W_V
//   S = softmax(Q·Kᵀ/√d_k)              per head
//   f = Concat(S·V)·W_O
//
// The derivative of softmax is a Jacobian of N×N per query and head, built by (28) and multiplied
// by (29): these two lines are what D1 and D2 are about.
#include "longspan/cost/paper.h"

namespace longspan {
namespace {

using symbols::d, symbols::h;

std::vector<FormulaLine> lines_of(CostView view, const Polynomial& M, const Polynomial& N) {
  constexpr CostPhase forward = CostPhase::kForward;
  constexpr CostPhase backward = CostPhase::kBackward;
  constexpr CostPhase update = CostPhase::kUpdate;
  // A row of N times a Jacobian of N×N, M·h times; the paper prints M·N·M·h (D2).
  const Polynomial slice = view == CostView::kPrinted ? M * N * M * h : M * N * N * h;
  return {
      {"Q, K, V", "(2)", forward, matmuls(M * d * d + 2 * N * d * d)},
      {"softmax(Q·Kᵀ/√d_k)·V", "(3)", forward, matmuls(2 * M * N * d, 5 * M * N * h + M * N * h)},
      {"Concat·W_O", "(4)", forward, matmuls(M * d * d)},
      {"∂L/∂Concat", "(8), (22)", backward, matmuls(M * d * d)},
      {"∂L/∂W_O", "(7), (23)", update, matmuls(M * d * d)},
      {"∂L/∂V", "(15), (24)", backward, matmuls(N * M * d)},
      {"∂L/∂X_V", "(25)-(26)", backward, matmuls(N * d * d)},
      {"∂L/∂W_V", "(27)", update, matmuls(N * d * d)},
      {"Jacobian of softmax", "(11), (28)", backward, {0, N * N * M * h}},
      {"∂L/∂(Q·Kᵀ)", "(12), (29)", backward, matmuls(M * d * N + slice, M * N * h)},
      {"∂L/∂Q", "(13), (30)", backward, matmuls(M * N * d)},
      {"∂L/∂X_Q", "(31)-(32)", backward, matmuls(M * d * d)},
      {"∂L/∂W_Q", "(33)", update, matmuls(M * d * d)},
      {"∂L/∂K", "(14), (34)", backward, matmuls(N * M * d)},
      {"∂L/∂X_K", "(35)-(36)", backward, matmuls(N * d * d)},
      {"∂L/∂W_K", "(37)", update, matmuls(N * d * d)},
      {"∂L/∂X_Q + ∂L/∂X_K + ∂L/∂X_V, called marginal", "5.3.2", backward, {}},
  };
}

}  // namespace

std::string_view name_of(AttentionRole role) {
  static constexpr std::array<std::string_view, 3> kNames = {"mha", "masked_mha", "cross_mha"};
  return kNames[static_cast<std::size_t>(role)];
}

LayerFormula paper_attention(CostView view, AttentionRole role, const Polynomial& queries,
                             const Polynomial& keys) {
  const Polynomial& M = queries;
  const Polynomial& N = keys;
  LayerFormula layer{.kind = LayerKind::kAttention,
                     .view = view,
                     .name = std::string(name_of(role)),
                     .queries = M,
                     .keys = N,
                     .parameters = 4 * d * d,
                     .lines = lines_of(view, M, N)};
  layer.sum_lines();
  if (view == CostView::kPrinted) {
    layer.total(CostPhase::kForward) = {
        2 * M * d * d + 2 * M * N * d + 2 * N * d * d,
        4 * M * d * d + 4 * M * N * d + 4 * N * d * d + 6 * M * N * h};
    layer.total(CostPhase::kBackward) = {
        2 * M * d * d + 2 * N * d * d + 4 * M * N * d + M * N * M * h,
        4 * M * d * d + 4 * N * d * d + 8 * M * N * d + 2 * M * N * M * h + M * N * h};
    layer.total(CostPhase::kUpdate) = {2 * M * d * d + 2 * N * d * d,
                                       4 * M * d * d + 4 * N * d * d};
  }
  layer.discrepancies = {1, 2, 15, 16, 19};
  if (role == AttentionRole::kMasked) layer.discrepancies.push_back(14);
  return layer;
}

}  // namespace longspan
