// 5.7 Error projection, for PEPITA and MEMPEPITA on an encoder-decoder.
//
//   T_enc^err = Attention(T_enc, T_dec^err, T_dec^err)                                         (48)
//
// T_enc is N×v and T_dec^err M×v; the text speaks of N×d and M×d instead (D5).
#include "longspan/cost/paper.h"

namespace longspan {

LayerFormula paper_error_projection(CostView view, const Polynomial& encoder_tokens,
                                    const Polynomial& decoder_tokens, ErrorSpace space) {
  const Polynomial& N = encoder_tokens;
  const Polynomial& M = decoder_tokens;
  const Polynomial width = space == ErrorSpace::kVocabulary ? symbols::v : symbols::d;
  LayerFormula layer{.kind = LayerKind::kErrorProjection,
                     .view = view,
                     .name = "error_projection",
                     .queries = N,
                     .keys = M};
  layer.lines = {{"Attention(T_enc, T_err, T_err)", "(48)", CostPhase::kErrorProjection,
                  matmuls(2 * N * M * width, 6 * N * M)}};
  layer.sum_lines();
  layer.discrepancies = {5, 11};
  return layer;
}

}  // namespace longspan
