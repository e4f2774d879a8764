// RoBERTa (Liu et al., 2019, arXiv:1907.11692) and those that are built as it is: XLM-RoBERTa and
// CamemBERT. Positions are counted from the one behind that of padding.
#include "longspan/models/families/bert_like.h"
#include "longspan/models/families/heads.h"

namespace longspan {

namespace roberta_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  ModelConfig c = bert_config(f, {.padding_token = 1});
  offset_positions(c);
  f.refuse(f.text("position_embedding_type", "absolute") != "absolute", "relative positions");
  return c;
}

constexpr CheckpointHead kRobertaHeads[] = {
    {"RobertaModel", &heads::pooled, &heads::place_pooled},
    {"RobertaForMaskedLM", &heads::gelu_masked, &heads::place_lm_head},
    {"RobertaForSequenceClassification", &heads::tanh_classifier, &heads::place_dense_classifier},
    {"RobertaForTokenClassification", &heads::tagger, &heads::place_tagger},
    {"RobertaForQuestionAnswering", &heads::answers, &heads::place_answers},
};
constexpr CheckpointHead kXlmRobertaHeads[] = {
    {"XLMRobertaModel", &heads::pooled, &heads::place_pooled},
    {"XLMRobertaForMaskedLM", &heads::gelu_masked, &heads::place_lm_head},
    {"XLMRobertaForSequenceClassification", &heads::tanh_classifier,
     &heads::place_dense_classifier},
    {"XLMRobertaForTokenClassification", &heads::tagger, &heads::place_tagger},
    {"XLMRobertaForQuestionAnswering", &heads::answers, &heads::place_answers},
};
constexpr CheckpointHead kCamembertHeads[] = {
    {"CamembertModel", &heads::pooled, &heads::place_pooled},
    {"CamembertForMaskedLM", &heads::gelu_masked, &heads::place_lm_head},
    {"CamembertForSequenceClassification", &heads::tanh_classifier, &heads::place_dense_classifier},
    {"CamembertForTokenClassification", &heads::tagger, &heads::place_tagger},
    {"CamembertForQuestionAnswering", &heads::answers, &heads::place_answers},
};

}  // namespace

}  // namespace roberta_family

extern const CheckpointFamily kRoberta{"roberta", "roberta", &roberta_family::config, &place_bert,
                                       roberta_family::kRobertaHeads};
extern const CheckpointFamily kXlmRoberta{"xlm-roberta", "roberta", &roberta_family::config,
                                          &place_bert, roberta_family::kXlmRobertaHeads};
extern const CheckpointFamily kCamembert{"camembert", "roberta", &roberta_family::config,
                                         &place_bert, roberta_family::kCamembertHeads};

}  // namespace longspan
