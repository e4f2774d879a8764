// BERT (Devlin et al., 2019, arXiv:1810.04805).
#include "longspan/models/families/bert_like.h"
#include "longspan/models/families/heads.h"

namespace longspan {

namespace bert_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  ModelConfig c = bert_config(f, {});
  set_relative_keys(f, c);
  f.pass_over({"directionality", "pooler_fc_size", "pooler_num_attention_heads",
               "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"});
  return c;
}

void next_sentence(const ConfigFields& f, ModelConfig& c) {
  heads::pooled_classifier(f, c);
  c.classes = 2;
}

void place_next_sentence(Placer& p) {
  heads::place_pooled(p);
  p.both("cls.seq_relationship", "head.output");
}

// A number for each choice, of which the largest is taken.
void choices(const ConfigFields& f, ModelConfig& c) {
  heads::pooled_classifier(f, c);
  c.classes = 1;
}

constexpr CheckpointHead kHeads[] = {
    {"BertModel", &heads::pooled, &heads::place_pooled},
    {"BertForMaskedLM", &heads::masked, &heads::place_masked},
    {"BertForPreTraining", &heads::pretraining, &heads::place_pretraining},
    {"BertForSequenceClassification", &heads::pooled_classifier, &heads::place_pooled_classifier},
    {"BertForTokenClassification", &heads::tagger, &heads::place_tagger},
    {"BertForQuestionAnswering", &heads::answers, &heads::place_answers},
    {"BertForMultipleChoice", &choices, &heads::place_pooled_classifier},
    {"BertForNextSentencePrediction", &next_sentence, &place_next_sentence},
};

}  // namespace

}  // namespace bert_family

extern const CheckpointFamily kBert{"bert", "bert", &bert_family::config, &place_bert,
                                    bert_family::kHeads};

}  // namespace longspan
