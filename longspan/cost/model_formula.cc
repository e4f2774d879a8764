#include "longspan/cost/model_formula.h"

namespace longspan {
namespace {

// Makes the layers of one model, all in the view of its terms.
class Composer {
 public:
  explicit Composer(const ModelTerms& terms) : terms_(terms), model_{terms, {}} {}

  void embedding(const Polynomial& tokens) {
    add(1, executed() ? executed_embedding(tokens) : paper_embedding(terms_.view, tokens));
  }
  void attention(AttentionRole role, const Polynomial& queries, const Polynomial& keys) {
    if (!executed()) return add(depth_, paper_attention(terms_.view, role, queries, keys));
    ExecutedAttention shape{role, queries, keys};
    if (role == AttentionRole::kMasked) shape.pairs = terms_.masked_pairs;
    shape.recompute_scores = terms_.recompute_scores;
    add(depth_, executed_attention(shape));
  }
  void feed_forward(const Polynomial& tokens) {
    add(depth_, executed() ? executed_feed_forward(tokens, terms_.gelu_derivative)
                           : paper_feed_forward(terms_.view, tokens, terms_.gelu_derivative));
  }
  void add_norm(int per_block, const Polynomial& tokens) {
    add(per_block * depth_,
        executed() ? executed_add_norm(tokens) : paper_add_norm(terms_.view, tokens));
  }
  void softmax(const Polynomial& tokens) {
    add(1, executed() ? executed_softmax_layer(tokens) : paper_softmax_layer(terms_.view, tokens));
  }
  // The layers that follow belong to this stack of `depth` blocks.
  void stack(std::string prefix, const Polynomial& depth) {
    prefix_ = std::move(prefix);
    depth_ = depth;
  }
  ModelFormula take() { return std::move(model_); }

 private:
  bool executed() const { return terms_.view == CostView::kExecuted; }
  void add(const Polynomial& count, LayerFormula formula) {
    std::string name = prefix_ + formula.name;
    model_.layers.push_back({std::move(name), count, std::move(formula)});
  }

  const ModelTerms& terms_;
  ModelFormula model_;
  std::string prefix_;
  Polynomial depth_;
};

void compose_single(const ModelTerms& terms, AttentionRole role, Composer& to) {
  const Polynomial& N = terms.length;
  to.stack("", terms.layers);
  to.embedding(N);
  to.attention(role, N, N);
  to.add_norm(2, N);
  to.feed_forward(N);
  to.softmax(N);
}

void compose_pair(const ModelTerms& terms, Composer& to) {
  const Polynomial& N = terms.length;
  const Polynomial& M = terms.target_length;
  to.stack("encoder_", terms.encoder_layers);
  to.embedding(N);
  to.attention(AttentionRole::kSelf, N, N);
  to.add_norm(2, N);
  to.feed_forward(N);
  to.stack("decoder_", terms.decoder_layers);
  to.embedding(M);
  to.attention(AttentionRole::kMasked, M, M);
  to.attention(AttentionRole::kCross, M, N);
  to.add_norm(3, M);
  to.feed_forward(M);
  to.stack("", 1);
  to.softmax(M);
}

}  // namespace

CountFormula ModelFormula::total(CostPhase phase) const {
  CountFormula sum;
  for (const ModelLayer& layer : layers) sum += layer.total(phase);
  return sum;
}

Polynomial ModelFormula::parameters() const {
  Polynomial sum;
  for (const ModelLayer& layer : layers) sum += layer.parameters();
  return sum;
}

ModelFormula model_formula(const ModelTerms& terms) {
  Composer composer(terms);
  switch (terms.family) {
    case ModelFamily::kEncoder:
      compose_single(terms, AttentionRole::kSelf, composer);
      break;
    case ModelFamily::kDecoder:
      compose_single(terms, AttentionRole::kMasked, composer);
      break;
    case ModelFamily::kEncoderDecoder:
      compose_pair(terms, composer);
      break;
  }
  return composer.take();
}

}  // namespace longspan
