// DistilBERT (Sanh et al., 2019, arXiv:1910.01108).
#include "longspan/models/families/bert_like.h"
#include "longspan/models/families/heads.h"

namespace longspan {

namespace distilbert_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  ModelConfig c = post_norm_encoder();
  c.layers = f.layers("n_layers");
  c.d_model = f.size("dim");
  c.heads = f.size("n_heads");
  c.d_ff = f.size("hidden_dim");
  c.vocab = f.size("vocab_size");
  c.max_length = f.size("max_position_embeddings");
  c.activation = f.activation("activation", "gelu");
  c.dropout = f.number("dropout", 0.1);
  c.init_deviation = f.number("initializer_range", 0.02);
  c.padding_token = f.has("pad_token_id") ? f.token("pad_token_id") : 0;
  c.tied = f.flag("tie_word_embeddings", true);
  // The same sinusoids as a table; they are computed here.
  if (f.flag("sinusoidal_pos_embds", false)) {
    c.positions = PositionKind::kSinusoidal;
    c.stored_numbers = c.max_length * c.d_model;
  }
  f.pass_over({"qa_dropout", "seq_classif_dropout", "tie_weights_"});
  return c;
}

void place(Placer& p) {
  place_bert_embedding(p);
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = p.source_layer("transformer.layer", i);
    const std::string attention = from + ".attention";
    const std::string to = p.layer(i);
    p.qkv(attention + ".q_lin", attention + ".k_lin", attention + ".v_lin", to + ".attention");
    p.attention_out(attention + ".out_lin", to + ".attention");
    p.norm(from + ".sa_layer_norm", to + ".attention_norm");
    p.linear(from + ".ffn.lin1", to + ".feed_forward.in");
    p.linear(from + ".ffn.lin2", to + ".feed_forward.out");
    p.norm(from + ".output_layer_norm", to + ".feed_forward_norm");
  }
}

void place_masked(Placer& p) {
  p.both("vocab_transform", "head.transform");
  p.norm("vocab_layer_norm", "head.norm");
  p.whole("vocab_projector.bias", "head.output.bias");
  p.output_weight("vocab_projector.weight");
}

void classifier(const ConfigFields& f, ModelConfig& c) {
  heads::classifier(f, c);
  c.head_activation = Activation::kRelu;
}

void place_classifier(Placer& p) {
  p.both("pre_classifier", "head.transform");
  p.both("classifier", "head.output");
}

constexpr CheckpointHead kHeads[] = {
    {"DistilBertModel", &heads::bare, &heads::nothing},
    {"DistilBertForMaskedLM", &heads::masked, &place_masked},
    {"DistilBertForSequenceClassification", &classifier, &place_classifier},
    {"DistilBertForTokenClassification", &heads::tagger, &heads::place_tagger},
    {"DistilBertForQuestionAnswering", &heads::answers, &heads::place_answers},
};

}  // namespace

}  // namespace distilbert_family

extern const CheckpointFamily kDistilbert{"distilbert", "distilbert", &distilbert_family::config,
                                          &distilbert_family::place, distilbert_family::kHeads};

}  // namespace longspan
