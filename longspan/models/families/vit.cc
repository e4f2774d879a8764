// ViT (Dosovitskiy et al., 2021, arXiv:2010.11929): an encoder of the patches of an image.
#include "longspan/models/families/biases.h"
#include "longspan/models/families/heads.h"

namespace longspan {

namespace vit_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  ModelConfig c;
  c.family = Family::kEncoder;
  c.layers = f.layers("num_hidden_layers");
  c.d_model = f.size("hidden_size");
  c.heads = f.size("num_attention_heads");
  c.d_ff = f.size("intermediate_size");
  c.vocab = 1;  // no tokens
  c.activation = f.activation("hidden_act", "gelu");
  c.norm_epsilon = f.number("layer_norm_eps", 1e-12);
  c.dropout = f.number("hidden_dropout_prob", 0.0);
  c.init_deviation = f.number("initializer_range", 0.02);
  c.stem = StemKind::kPatches;
  c.channels = f.size("num_channels", 3);
  c.image = f.size("image_size", 224);
  c.patch = f.size("patch_size", 16);
  require(c.patch > 0, "[{}] patch_size is 0; need 1 or more", ConfigFields::kWho);
  c.max_length = 1 + (c.image / c.patch) * (c.image / c.patch);
  c.pool = Pool::kFirst;
  const bool bias = f.flag("qkv_bias", true);
  set_biases({.projections = bias, .output = true, .feed_forward = true}, c);
  f.refuse(f.size("pooler_output_size", c.d_model) != c.d_model ||
               f.text("pooler_act", "tanh") != "tanh",
           "another pooler");
  f.pass_over({"encoder_stride"});
  return c;
}

void place(Placer& p) {
  p.whole(p.base("embeddings.cls_token"), "embedding.class_token");
  p.whole(p.base("embeddings.position_embeddings"), "embedding.positions");
  p.both(p.base("embeddings.patch_embeddings.projection"), "embedding.patches");
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = p.source_layer("encoder.layer", i);
    const std::string self = from + ".attention.attention";
    const std::string to = p.layer(i);
    p.norm(from + ".layernorm_before", to + ".attention_norm");
    p.qkv(self + ".query", self + ".key", self + ".value", to + ".attention");
    p.attention_out(from + ".attention.output.dense", to + ".attention");
    p.norm(from + ".layernorm_after", to + ".feed_forward_norm");
    p.linear(from + ".intermediate.dense", to + ".feed_forward.in");
    p.linear(from + ".output.dense", to + ".feed_forward.out");
  }
  p.norm(p.base("layernorm"), "encoder.norm");
}

void classifier(const ConfigFields& f, ModelConfig& c) {
  heads::classifier(f, c);
  c.head_transform = false;
}

constexpr CheckpointHead kHeads[] = {
    {"ViTModel", &heads::pooled, &heads::place_pooled},
    {"ViTForImageClassification", &classifier, &heads::place_tagger},
};

}  // namespace

}  // namespace vit_family

extern const CheckpointFamily kVit{"vit", "vit", &vit_family::config, &vit_family::place,
                                   vit_family::kHeads};

}  // namespace longspan
