// RoFormer (Su et al., 2021, arXiv:2104.09864): BERT with rotary positions. Its library keeps a table
// of sinusoids among the weights; here they are computed.
#include "longspan/models/families/bert_like.h"
#include "longspan/models/families/heads.h"

namespace longspan {

namespace roformer_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  ModelConfig c = bert_config(f, {});
  c.positions = PositionKind::kRotary;
  c.stored_numbers = c.max_length * head_width_of(c);
  c.embedding_width = f.size("embedding_size", c.d_model);
  if (c.embedding_width == c.d_model) c.embedding_width = 0;
  f.refuse(f.flag("rotary_value", false), "rotated values");
  return c;
}

void place(Placer& p) {
  place_bert(p);
  if (p.config().embedding_width > 0) p.both(p.base("embeddings_project"), "embedding.projection");
}

void masked(const ConfigFields& f, ModelConfig& c) {
  heads::masked(f, c);
  c.output_width = c.embedding_width;
}

constexpr CheckpointHead kHeads[] = {
    {"RoFormerModel", &heads::bare, &heads::nothing},
    {"RoFormerForMaskedLM", &masked, &heads::place_masked},
    {"RoFormerForSequenceClassification", &heads::classifier, &heads::place_dense_classifier},
    {"RoFormerForTokenClassification", &heads::tagger, &heads::place_tagger},
    {"RoFormerForQuestionAnswering", &heads::answers, &heads::place_answers},
};

}  // namespace

}  // namespace roformer_family

extern const CheckpointFamily kRoformer{"roformer", "roformer", &roformer_family::config,
                                        &roformer_family::place, roformer_family::kHeads};

}  // namespace longspan
