// MPNet (Song et al., 2020, arXiv:2004.09297): BERT's layers with a bias of the distance that all of
// them share, and no token types.
#include <fmt/format.h>

#include "longspan/models/families/bert_like.h"
#include "longspan/models/families/heads.h"

namespace longspan {

namespace mpnet_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  ModelConfig c = bert_config(f, {.token_types = 0, .padding_token = 1});
  c.token_types = 0;
  offset_positions(c);
  // Its distances always fall into 32 buckets, however large the table is.
  const std::size_t buckets = f.size("relative_attention_num_buckets", 32);
  f.refuse(buckets != 32, "a table of relative positions that is used in part");
  c.attention = "flash:distances=buckets,buckets=32,span=128";
  return c;
}

void place(Placer& p) {
  place_bert_embedding(p);
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = p.source_layer("encoder.layer", i);
    const std::string self = from + ".attention.attn";
    const std::string to = p.layer(i);
    p.qkv(self + ".q", self + ".k", self + ".v", to + ".attention");
    p.attention_out(self + ".o", to + ".attention");
    p.norm(from + ".attention.LayerNorm", to + ".attention_norm");
    p.linear(from + ".intermediate.dense", to + ".feed_forward.in");
    p.linear(from + ".output.dense", to + ".feed_forward.out");
    p.norm(from + ".output.LayerNorm", to + ".feed_forward_norm");
  }
  p.whole(p.base("encoder.relative_attention_bias.weight"), "encoder.distances");
}

constexpr CheckpointHead kHeads[] = {
    {"MPNetModel", &heads::pooled, &heads::place_pooled},
    {"MPNetForMaskedLM", &heads::gelu_masked, &heads::place_lm_head},
    {"MPNetForSequenceClassification", &heads::tanh_classifier, &heads::place_dense_classifier},
    {"MPNetForTokenClassification", &heads::tagger, &heads::place_tagger},
    {"MPNetForQuestionAnswering", &heads::answers, &heads::place_answers},
};

}  // namespace

}  // namespace mpnet_family

extern const CheckpointFamily kMpnet{"mpnet", "mpnet", &mpnet_family::config, &mpnet_family::place,
                                     mpnet_family::kHeads};

}  // namespace longspan
