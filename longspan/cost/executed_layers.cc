#include "longspan/cost/executed_layers.h"

namespace longspan {
namespace {

using symbols::d, symbols::f, symbols::h, symbols::v;

constexpr CostPhase kF = CostPhase::kForward;
constexpr CostPhase kB = CostPhase::kBackward;
constexpr CostPhase kU = CostPhase::kUpdate;

LayerFormula layer_of(LayerKind kind, std::string_view name, const Polynomial& tokens,
                      const Polynomial& parameters, std::vector<FormulaLine> lines) {
  LayerFormula layer{.kind = kind,
                     .view = CostView::kExecuted,
                     .name = std::string(name),
                     .queries = tokens,
                     .keys = tokens,
                     .parameters = parameters,
                     .lines = std::move(lines)};
  layer.sum_lines();
  return layer;
}

}  // namespace

LayerFormula executed_embedding(const Polynomial& tokens) {
  const Polynomial& M = tokens;
  LayerFormula layer =
      layer_of(LayerKind::kEmbedding, "embedding", M, v * d,
               {{"lookup", "", kF, {}},
                {"position add", "X = E + P", kF, {0, M * d}},
                {"scatter-add of the gradient", "∂W[token] += ∂L/∂x", kU, {0, M * d}}});
  layer.discrepancies = {4, 16};
  return layer;
}

LayerFormula executed_attention(const ExecutedAttention& shape) {
  const Polynomial& M = shape.queries;
  const Polynomial& N = shape.keys;
  const Polynomial P = shape.pairs.value_or(M * N);
  std::vector<FormulaLine> lines = {
      {"Q, K, V", "", kF, matmuls(M * d * d + 2 * N * d * d)},
      {"scale of Q", "Q/√d_k", kF, {0, M * d}},
      {"softmax(Q·Kᵀ)·V", "", kF, matmuls(2 * P * d, 5 * P * h)},
      {"Concat·W_O", "", kF, matmuls(M * d * d)},
      {"∂L/∂Concat", "", kB, matmuls(M * d * d)},
      {"∂L/∂V, ∂L/∂P", "", kB, matmuls(2 * P * d)},
      {"∂L/∂S", "dS = P ⊙ (dP − Σ P⊙dP)", kB, {0, 4 * P * h}},
      {"∂L/∂Q, ∂L/∂K", "", kB, matmuls(2 * P * d)},
      {"scale of ∂L/∂Q", "∂L/∂Q/√d_k", kB, {0, M * d}},
      {"∂L/∂X_Q, ∂L/∂X_K, ∂L/∂X_V", "", kB, matmuls(M * d * d + 2 * N * d * d)},
      {"∂L/∂W_Q, ∂L/∂W_K, ∂L/∂W_V, ∂L/∂W_O", "", kU, matmuls(2 * M * d * d + 2 * N * d * d)},
  };
  if (shape.recompute_scores) lines.push_back({"Q·Kᵀ again", "", kB, matmuls(P * d)});
  LayerFormula layer =
      layer_of(LayerKind::kAttention, name_of(shape.role), M, 4 * d * d, std::move(lines));
  layer.keys = N;
  layer.discrepancies = {1, 2, 15, 16};
  if (shape.role == AttentionRole::kMasked) layer.discrepancies.push_back(14);
  return layer;
}

LayerFormula executed_feed_forward(const Polynomial& tokens, Integer gelu_derivative) {
  const Polynomial& M = tokens;
  LayerFormula layer = layer_of(LayerKind::kFeedForward, "ffn", M, 2 * d * f + f + d,
                                {{"GELU(x·W_1 + b_1)·W_2 + b_2", "", kF,
                                  matmuls(2 * M * d * f, (kGeluFlops + 1) * M * f + M * d)},
                                 {"∂L/∂x", "", kB, matmuls(2 * M * d * f)},
                                 {"GELU' and its product",
                                  "∂L/∂u = GELU'(u) ⊙ ∂L/∂a",
                                  kB,
                                  {0, (gelu_derivative + 1) * M * f}},
                                 {"∂L/∂W_1, ∂L/∂W_2", "", kU, matmuls(2 * M * d * f)},
                                 {"∂L/∂b_1, ∂L/∂b_2", "", kU, {0, M * f + M * d}}});
  layer.discrepancies = {6, 7};
  return layer;
}

LayerFormula executed_add_norm(const Polynomial& tokens) {
  const Polynomial& M = tokens;
  LayerFormula layer =
      layer_of(LayerKind::kAddNorm, "add_norm", M, 2 * d,
               {{"residual add", "", kF, {0, M * d}},
                {"LayerNorm", "x̂ = (x − mean)/σ, y = x̂⊙γ + β", kF, {0, M * (7 * d + 5)}},
                {"∂L/∂x", "dx = (1/σ)(g − mean(g) − x̂·mean(g⊙x̂))", kB, {0, M * (8 * d + 2)}},
                {"derivative of the skip connection", "", kB, {0, M * d}},
                {"∂L/∂γ, ∂L/∂β", "", kU, {0, 3 * M * d}}});
  layer.discrepancies = {17};
  return layer;
}

LayerFormula executed_softmax_layer(const Polynomial& tokens) {
  const Polynomial& M = tokens;
  LayerFormula layer = layer_of(LayerKind::kSoftmax, "softmax", M, d * v,
                                {{"softmax(X·W_S)", "", kF, matmuls(M * d * v, 5 * M * v)},
                                 {"∂L/∂Z", "s[target] − 1", kB, {0, M}},
                                 {"∂L/∂X", "", kB, matmuls(M * d * v)},
                                 {"∂L/∂W_S", "", kU, matmuls(M * d * v)}});
  layer.discrepancies = {12};
  return layer;
}

LayerFormula executed_error_projection(const Polynomial& encoder_tokens,
                                       const Polynomial& decoder_tokens, ErrorSpace space) {
  const Polynomial& N = encoder_tokens;
  const Polynomial& M = decoder_tokens;
  const bool in_vocabulary = space == ErrorSpace::kVocabulary;
  const CountFormula scores = in_vocabulary ? CountFormula{} : matmuls(N * M * d);
  const Polynomial width = in_vocabulary ? v : d;
  LayerFormula layer = layer_of(
      LayerKind::kErrorProjection, "error_projection", N, 0,
      {{in_vocabulary ? "Q·Kᵀ, a gather" : "Q·Kᵀ", "", CostPhase::kErrorProjection, scores},
       {"scale and softmax", "", CostPhase::kErrorProjection, {0, 6 * N * M}},
       {"P·V", "", CostPhase::kErrorProjection, matmuls(N * M * width)}});
  layer.keys = M;
  layer.discrepancies = {5, 11};
  return layer;
}

}  // namespace longspan
