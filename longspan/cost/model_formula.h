// A whole transformer as a list of layers with counts: what one pass over one sequence (or one pair
// of sequences) costs. A batch of B multiplies everything but the parameters by B.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "longspan/cost/executed_layers.h"
#include "longspan/cost/formula.h"
#include "longspan/cost/paper.h"

namespace longspan {

enum class ModelFamily : std::uint8_t { kEncoder, kDecoder, kEncoderDecoder };

// encoder          embedding, L × (mha, ffn, 2 add_norm), softmax              over N tokens
// decoder          the same, the attention masked
// encoder-decoder  the encoder over N tokens: embedding, n_enc × (mha, ffn, 2 add_norm);
//                  the decoder over M: embedding, n_dec × (masked_mha, cross_mha, ffn, 3 add_norm),
//                  softmax
struct ModelTerms {
  CostView view = CostView::kPrinted;
  ModelFamily family = ModelFamily::kEncoder;
  Polynomial layers = symbols::L;              // of the only stack
  Polynomial encoder_layers = symbols::n_enc;  // encoder-decoder
  Polynomial decoder_layers = symbols::n_dec;
  Polynomial length = symbols::N;         // the encoder's or only sequence
  Polynomial target_length = symbols::M;  // the decoder's
  Integer gelu_derivative = kGeluDerivativeFlops;
  // `executed` only. Pairs that masked attention computes, if not all; see ExecutedAttention.
  std::optional<Polynomial> masked_pairs;
  bool recompute_scores = false;
};

struct ModelLayer {
  std::string name;  // "mha"; "encoder_mha" where there are two stacks
  Polynomial count;
  LayerFormula formula;  // of one

  CountFormula total(CostPhase phase) const { return count * formula.total(phase); }
  Polynomial parameters() const { return count * formula.parameters; }
};

struct ModelFormula {
  ModelTerms terms;
  std::vector<ModelLayer> layers;

  // Of all layers. `kUpdate` has the embedding's, which the paper gives to PEPITA and MEMPEPITA
  // only; rule_formula() knows.
  CountFormula total(CostPhase phase) const;
  // Untied vocabulary matrices, biases in the FFN only, no table of positions.
  Polynomial parameters() const;
};

ModelFormula model_formula(const ModelTerms& terms);

}  // namespace longspan
