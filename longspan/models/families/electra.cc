// ELECTRA (Clark et al., 2020, arXiv:2003.10555): a generator that fills masks, and a discriminator
// that tells which tokens were replaced.
#include "longspan/models/families/bert_like.h"
#include "longspan/models/families/heads.h"

namespace longspan {

namespace electra_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  ModelConfig c = bert_config(f, {});
  factorise_embedding(f, c);
  f.refuse(f.text("position_embedding_type", "absolute") != "absolute", "relative positions");
  f.pass_over({"summary_use_proj", "summary_type"});
  return c;
}

void place(Placer& p) {
  place_bert(p);
  if (p.config().embedding_width > 0) p.both(p.base("embeddings_project"), "embedding.projection");
}

// Always the exact GELU, then a norm of its own.
void masked(const ConfigFields& f, ModelConfig& c) {
  heads::gelu_masked(f, c);
  c.output_width = c.embedding_width;
}

void place_masked(Placer& p) {
  p.both("generator_predictions.dense", "head.transform");
  p.norm("generator_predictions.LayerNorm", "head.norm");
  p.whole("generator_lm_head.bias", "head.output.bias");
  p.output_weight("generator_lm_head.weight");
}

// A transform of every token, then one number.
void replaced(const ConfigFields& f, ModelConfig& c) {
  heads::tagger(f, c);
  c.classes = 1;
  c.loss = "binary";
  c.head_transform = true;
  c.head_activation = c.activation;
}

void place_replaced(Placer& p) {
  p.both("discriminator_predictions.dense", "head.transform");
  p.both("discriminator_predictions.dense_prediction", "head.output");
}

// Its transform is always followed by the exact GELU.
void classifier(const ConfigFields& f, ModelConfig& c) {
  heads::classifier(f, c);
  c.head_activation = Activation::kGelu;
}

constexpr CheckpointHead kHeads[] = {
    {"ElectraModel", &heads::bare, &heads::nothing},
    {"ElectraForPreTraining", &replaced, &place_replaced},
    {"ElectraForMaskedLM", &masked, &place_masked},
    {"ElectraForSequenceClassification", &classifier, &heads::place_dense_classifier},
    {"ElectraForTokenClassification", &heads::tagger, &heads::place_tagger},
    {"ElectraForQuestionAnswering", &heads::answers, &heads::place_answers},
};

}  // namespace

}  // namespace electra_family

extern const CheckpointFamily kElectra{"electra", "electra", &electra_family::config,
                                       &electra_family::place, electra_family::kHeads};

}  // namespace longspan
