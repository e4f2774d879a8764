// ALBERT (Lan et al., 2020, arXiv:1909.11942): all layers have the weights of the first, and the
// embedding is narrower than they are.
#include "longspan/models/families/bert_like.h"
#include "longspan/models/families/heads.h"

namespace longspan {

namespace albert_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  ModelConfig c = bert_config(f, {.activation = "gelu_new"});
  factorise_embedding(f, c);
  c.embedding_projection = true;  // also where the widths are equal
  const std::size_t groups = f.size("num_hidden_groups", 1);
  c.shared_layers = groups == 1;
  f.refuse(groups != 1 && groups != c.layers, "several groups of shared layers");
  f.refuse(f.size("inner_group_num", 1) != 1, "groups of several layers");
  f.refuse(f.text("position_embedding_type", "absolute") != "absolute", "relative positions");
  f.pass_over({"net_structure_type", "gap_size", "num_memory_blocks", "down_scale_factor",
               "layers_to_keep"});
  return c;
}

void place(Placer& p) {
  place_bert_embedding(p);
  p.both(p.base("encoder.embedding_hidden_mapping_in"), "embedding.projection");
  const std::size_t groups = p.config().shared_layers ? 1 : p.config().layers;
  for (std::size_t i = 0; i < groups; ++i) {
    const std::string from = p.source_layer("encoder.albert_layer_groups", i) + ".albert_layers.0";
    const std::string to = p.layer(i);
    p.qkv(from + ".attention.query", from + ".attention.key", from + ".attention.value",
          to + ".attention");
    p.attention_out(from + ".attention.dense", to + ".attention");
    p.norm(from + ".attention.LayerNorm", to + ".attention_norm");
    p.linear(from + ".ffn", to + ".feed_forward.in");
    p.linear(from + ".ffn_output", to + ".feed_forward.out");
    p.norm(from + ".full_layer_layer_norm", to + ".feed_forward_norm");
  }
}

void masked(const ConfigFields& f, ModelConfig& c) {
  heads::masked(f, c);
  c.output_width = c.embedding_width;
}

void place_masked(Placer& p) {
  p.both("predictions.dense", "head.transform");
  p.norm("predictions.LayerNorm", "head.norm");
  p.whole("predictions.bias", "head.output.bias");
  p.second_name("predictions.decoder.bias", "head.output.bias");
  p.output_weight("predictions.decoder.weight");
}

// And in which order two parts of a text stand.
void pretraining(const ConfigFields& f, ModelConfig& c) {
  masked(f, c);
  c.pair_classes = 2;
}

void place_pretraining(Placer& p) {
  place_masked(p);
  p.both(p.base("pooler"), "sentence_head.pooler");
  p.both("sop_classifier.classifier", "sentence_head.output");
}

void place_pooled(Placer& p) { p.both(p.base("pooler"), "head.transform"); }

void place_classifier(Placer& p) {
  place_pooled(p);
  heads::place_tagger(p);
}

constexpr CheckpointHead kHeads[] = {
    {"AlbertModel", &heads::pooled, &place_pooled},
    {"AlbertForMaskedLM", &masked, &place_masked},
    {"AlbertForPreTraining", &pretraining, &place_pretraining},
    {"AlbertForSequenceClassification", &heads::pooled_classifier, &place_classifier},
    {"AlbertForTokenClassification", &heads::tagger, &heads::place_tagger},
    {"AlbertForQuestionAnswering", &heads::answers, &heads::place_answers},
};

}  // namespace

}  // namespace albert_family

extern const CheckpointFamily kAlbert{"albert", "albert", &albert_family::config,
                                      &albert_family::place, albert_family::kHeads};

}  // namespace longspan
