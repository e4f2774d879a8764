// BigBird (Zaheer et al., 2020, arXiv:2007.14062).
#include <fmt/format.h>

#include "longspan/models/families/bert_like.h"
#include "longspan/models/families/heads.h"

namespace longspan {

namespace big_bird_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  ModelConfig c = bert_config(f, {.activation = "gelu_new"});
  const std::size_t block = f.size("block_size", 64);
  const std::size_t random = f.size("num_random_blocks", 3);
  if (f.text("attention_type", "block_sparse") == "block_sparse") {
    c.attention = fmt::format("bigbird:block={},random={},padded=true", block, random);
  }
  c.projection_bias = f.flag("use_bias", true);
  c.embedding_scale = f.flag("rescale_embeddings", false);
  f.refuse(f.text("position_embedding_type", "absolute") != "absolute", "relative positions");
  return c;
}

void place_pretraining(Placer& p) {
  heads::place_masked(p);
  p.both(p.base("pooler"), "sentence_head.pooler");
  p.both("cls.seq_relationship", "sentence_head.output");
}

void place_pooled(Placer& p) { p.both(p.base("pooler"), "head.transform"); }

constexpr CheckpointHead kHeads[] = {
    {"BigBirdModel", &heads::pooled, &place_pooled},
    {"BigBirdForMaskedLM", &heads::masked, &heads::place_masked},
    {"BigBirdForPreTraining", &heads::pretraining, &place_pretraining},
    {"BigBirdForSequenceClassification", &heads::classifier, &heads::place_dense_classifier},
    {"BigBirdForTokenClassification", &heads::tagger, &heads::place_tagger},
};

}  // namespace

}  // namespace big_bird_family

extern const CheckpointFamily kBigBird{"big_bird", "bert", &big_bird_family::config, &place_bert,
                                       big_bird_family::kHeads};

}  // namespace longspan
