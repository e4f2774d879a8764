// ModernBERT (Warner et al., 2024, arXiv:2412.13663): pre-norm without biases, gated feed-forwards,
// rotary positions, and windows in all layers but every third.
#include <fmt/format.h>

#include "longspan/models/families/heads.h"
#include "longspan/models/families/rope.h"
#include "longspan/models/families/turns.h"

namespace longspan {

namespace modernbert_family {

namespace {

void set_biases(const ConfigFields& f, ModelConfig& c) {
  c.attention_bias = f.flag("attention_bias", false);
  c.feed_forward_bias = f.flag("mlp_bias", false);
  c.bias = c.attention_bias || c.feed_forward_bias;
  c.norm_bias = f.flag("norm_bias", false);
}

// Which layers see everything: by their names, or every few.
void set_layers(const ConfigFields& f, ModelConfig& c) {
  const std::size_t every = f.size("global_attn_every_n_layers", 3);
  require(every > 0, "[{}] global_attn_every_n_layers is 0; need 1 or more", ConfigFields::kWho);
  const std::size_t side = f.size("local_attention", 128) / 2;
  const double global_base = f.exact_number("global_rope_theta", 160000.0);
  const double local_base =
      f.exact_number("local_rope_theta", f.absent("local_rope_theta") ? 10000.0 : global_base);
  std::vector<std::string> attention;
  std::vector<std::string> rotary;
  for (std::size_t i = 0; i < c.layers; ++i) {
    const bool global = i % every == 0;
    attention.push_back(global ? "flash" : fmt::format("flash:before={},after={}", side, side));
    rotary.push_back(fmt::format("base={}", global ? global_base : local_base));
  }
  c.attention = in_turn(attention);
  c.rotary = in_turn(rotary);
}

ModelConfig config(const ConfigFields& f) {
  ModelConfig c;
  c.family = Family::kEncoder;
  c.layers = f.layers("num_hidden_layers");
  c.d_model = f.size("hidden_size");
  c.heads = f.size("num_attention_heads");
  c.d_ff = f.size("intermediate_size");
  c.vocab = f.size("vocab_size");
  c.max_length = f.size("max_position_embeddings");
  c.activation = f.activation("hidden_activation", "gelu");
  c.gated = true;
  c.norm_epsilon = f.number("norm_eps", 1e-5);
  c.positions = PositionKind::kRotary;
  c.rotary_interleaved = false;
  c.embedding_norm = true;
  c.first_norm = false;
  c.tied = f.flag("tie_word_embeddings", true);
  c.padding_token = f.token("pad_token_id");
  set_biases(f, c);
  set_layers(f, c);
  f.pass_over({"initializer_cutoff_factor", "embedding_dropout", "mlp_dropout",
               "deterministic_flash_attn", "sparse_prediction", "sparse_pred_ignore_index",
               "reference_compile", "repad_logits_with_grad", "position_embedding_type",
               "layer_norm_eps", "classifier_pooling", "classifier_bias", "classifier_activation",
               "decoder_bias"});
  return c;
}

void place(Placer& p) {
  p.whole(p.base("embeddings.tok_embeddings.weight"), "embedding.tokens");
  p.norm(p.base("embeddings.norm"), "embedding.norm");
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = p.source_layer("layers", i);
    const std::string to = p.layer(i);
    if (i > 0) p.norm(from + ".attn_norm", to + ".attention_norm");
    p.rows(from + ".attn.Wqkv", to + ".attention.qkv", 0, 0, BiasOf::kProjections);
    p.attention_out(from + ".attn.Wo", to + ".attention");
    p.norm(from + ".mlp_norm", to + ".feed_forward_norm");
    p.linear(from + ".mlp.Wi", to + ".feed_forward.in");
    p.linear(from + ".mlp.Wo", to + ".feed_forward.out");
  }
  p.norm(p.base("final_norm"), "encoder.norm");
}

void transform(const ConfigFields& f, ModelConfig& c) {
  c.head_transform = true;
  c.head_norm = true;
  c.head_activation = f.activation("classifier_activation", "gelu");
  c.head_transform_bias = f.flag("classifier_bias", false);
}

void place_transform(Placer& p) {
  p.whole("head.dense.weight", "head.transform.weight");
  if (p.config().head_transform_bias) p.whole("head.dense.bias", "head.transform.bias");
  p.norm("head.norm", "head.norm");
}

void masked(const ConfigFields& f, ModelConfig& c) {
  c.head = HeadKind::kLanguage;
  transform(f, c);
  c.head_bias = f.flag("decoder_bias", true);
}

void place_masked(Placer& p) {
  place_transform(p);
  p.output_weight("decoder.weight");
  if (p.config().head_bias) p.whole("decoder.bias", "head.output.bias");
}

void classifier(const ConfigFields& f, ModelConfig& c) {
  heads::classifier(f, c);
  transform(f, c);
  c.pool = f.text("classifier_pooling", "cls") == "mean" ? Pool::kMean : Pool::kFirst;
}

void tagger(const ConfigFields& f, ModelConfig& c) {
  heads::tagger(f, c);
  transform(f, c);
}

void place_classes(Placer& p) {
  place_transform(p);
  p.both("classifier", "head.output");
}

constexpr CheckpointHead kHeads[] = {
    {"ModernBertModel", &heads::bare, &heads::nothing},
    {"ModernBertForMaskedLM", &masked, &place_masked},
    {"ModernBertForSequenceClassification", &classifier, &place_classes},
    {"ModernBertForTokenClassification", &tagger, &place_classes},
};

}  // namespace

}  // namespace modernbert_family

extern const CheckpointFamily kModernbert{"modernbert", "model", &modernbert_family::config,
                                          &modernbert_family::place, modernbert_family::kHeads};

}  // namespace longspan
