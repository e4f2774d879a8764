#include "longspan/models/families/heads.h"

namespace longspan::heads {

void bare(const ConfigFields& /*f*/, ModelConfig& c) {
  c.head = HeadKind::kStates;
  c.loss = "squared-error";
  c.head_transform = false;
  c.head_bias = false;
}

void nothing(Placer& /*p*/) {}

void causal(const ConfigFields& /*f*/, ModelConfig& c) { c.head = HeadKind::kLanguage; }

void place_causal(Placer& p) { p.output_weight("lm_head.weight"); }

void last_classifier(const ConfigFields& f, ModelConfig& c) {
  c.head = HeadKind::kClassifier;
  c.pool = Pool::kLast;
  c.logit_cap = 0.0F;  // of words alone
  c.classes = f.classes();
  c.head_transform = false;
  c.head_bias = false;
}

void place_score(Placer& p) { p.whole("score.weight", "head.output.weight"); }

void tagger(const ConfigFields& f, ModelConfig& c) {
  c.head = HeadKind::kTagger;
  c.classes = f.classes();
  c.head_transform = false;
  c.head_bias = true;
}

void place_tagger(Placer& p) { p.both("classifier", "head.output"); }

void answers(const ConfigFields& f, ModelConfig& c) {
  tagger(f, c);
  c.classes = 2;  // the first token of the answer, and the last
  c.loss = "span";
}

void place_answers(Placer& p) { p.both("qa_outputs", "head.output"); }

void masked(const ConfigFields& /*f*/, ModelConfig& c) {
  c.head = HeadKind::kLanguage;
  c.head_activation = c.activation;
  c.head_transform = true;
  c.head_norm = true;
  c.head_bias = true;
}

void place_masked(Placer& p) {
  p.both("cls.predictions.transform.dense", "head.transform");
  p.norm("cls.predictions.transform.LayerNorm", "head.norm");
  p.whole("cls.predictions.bias", "head.output.bias");
  p.second_name("cls.predictions.decoder.bias", "head.output.bias");
  p.output_weight("cls.predictions.decoder.weight");
}

void pretraining(const ConfigFields& f, ModelConfig& c) {
  masked(f, c);
  c.pair_classes = 2;
}

void place_pretraining(Placer& p) {
  place_masked(p);
  p.both(p.base("pooler.dense"), "sentence_head.pooler");
  p.both("cls.seq_relationship", "sentence_head.output");
}

void pooled(const ConfigFields& f, ModelConfig& c) {
  bare(f, c);
  c.head_transform = true;
  c.head_activation = Activation::kTanh;
}

void place_pooled(Placer& p) { p.both(p.base("pooler.dense"), "head.transform"); }

void classifier(const ConfigFields& f, ModelConfig& c) {
  c.head = HeadKind::kClassifier;
  c.classes = f.classes();
  c.head_transform = true;
  c.head_norm = false;
  c.head_bias = true;
  c.head_activation = c.activation;
}

void tanh_classifier(const ConfigFields& f, ModelConfig& c) {
  classifier(f, c);
  c.head_activation = Activation::kTanh;
}

void pooled_classifier(const ConfigFields& f, ModelConfig& c) { tanh_classifier(f, c); }

void place_pooled_classifier(Placer& p) {
  place_pooled(p);
  p.both("classifier", "head.output");
}

void gelu_masked(const ConfigFields& f, ModelConfig& c) {
  masked(f, c);
  c.head_activation = Activation::kGelu;  // whatever the layers have
}

void place_lm_head(Placer& p) {
  p.both("lm_head.dense", "head.transform");
  p.norm("lm_head.layer_norm", "head.norm");
  p.whole("lm_head.bias", "head.output.bias");
  p.second_name("lm_head.decoder.bias", "head.output.bias");
  p.output_weight("lm_head.decoder.weight");
}

void place_dense_classifier(Placer& p) {
  p.both("classifier.dense", "head.transform");
  p.both("classifier.out_proj", "head.output");
}

}  // namespace longspan::heads
