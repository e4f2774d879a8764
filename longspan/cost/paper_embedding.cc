// 5.1 Embedding, 5.2 position embedding.
//
//   E = T·W_emb   with T one-hot, M×v: counted as a dense product (D4)
//   X = E + P
#include "longspan/cost/paper.h"

namespace longspan {

LayerFormula paper_embedding(CostView view, const Polynomial& tokens) {
  using symbols::d, symbols::v;
  const Polynomial& M = tokens;
  LayerFormula layer{.kind = LayerKind::kEmbedding,
                     .view = view,
                     .name = "embedding",
                     .queries = M,
                     .keys = M,
                     .parameters = v * d};
  layer.lines = {
      {"E = T·W_emb", "5.1.1", CostPhase::kForward, matmuls(M * v * d)},
      {"X = E + P, called negligible", "5.2", CostPhase::kForward, {}},
      {"update, PEPITA and MEMPEPITA only", "5.1.2", CostPhase::kUpdate, matmuls(M * v * d)},
  };
  layer.sum_lines();
  layer.updated_by_backprop = false;
  layer.discrepancies = {4, 13, 16};
  return layer;
}

}  // namespace longspan
