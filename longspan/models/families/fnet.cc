// FNet (Lee-Thorp et al., 2022, arXiv:2105.03824): no attention, and so no heads.
#include "longspan/models/families/bert_like.h"
#include "longspan/models/families/heads.h"

namespace longspan {

namespace fnet_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  ModelConfig c = bert_sizes(f, {.activation = "gelu_new", .token_types = 4, .padding_token = 3});
  c.heads = 1;
  c.attention = "fnet";
  c.embedding_projection = true;
  f.pass_over({"use_tpu_fourier_optimizations", "tpu_short_seq_length"});
  return c;
}

void place(Placer& p) {
  place_bert_embedding(p);
  p.both(p.base("embeddings.projection"), "embedding.projection");
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = p.source_layer("encoder.layer", i);
    p.norm(from + ".fourier.output.LayerNorm", p.layer(i) + ".mixer_norm");
    p.linear(from + ".intermediate.dense", p.layer(i) + ".feed_forward.in");
    p.linear(from + ".output.dense", p.layer(i) + ".feed_forward.out");
    p.norm(from + ".output.LayerNorm", p.layer(i) + ".feed_forward_norm");
  }
}

constexpr CheckpointHead kHeads[] = {
    {"FNetModel", &heads::pooled, &heads::place_pooled},
    {"FNetForMaskedLM", &heads::masked, &heads::place_masked},
    {"FNetForPreTraining", &heads::pretraining, &heads::place_pretraining},
    {"FNetForSequenceClassification", &heads::pooled_classifier, &heads::place_pooled_classifier},
    {"FNetForTokenClassification", &heads::tagger, &heads::place_tagger},
    {"FNetForQuestionAnswering", &heads::answers, &heads::place_answers},
};

}  // namespace

}  // namespace fnet_family

extern const CheckpointFamily kFnet{"fnet", "fnet", &fnet_family::config, &fnet_family::place,
                                    fnet_family::kHeads};

}  // namespace longspan
