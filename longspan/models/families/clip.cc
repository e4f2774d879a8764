// The towers of CLIP (Radford et al., 2021, arXiv:2103.00020), each with its projection.
#include "longspan/models/families/heads.h"

namespace longspan {

namespace clip_family {

namespace {

ModelConfig tower(const ConfigFields& f) {
  ModelConfig c;
  c.layers = f.layers("num_hidden_layers");
  c.d_model = f.size("hidden_size");
  c.heads = f.size("num_attention_heads");
  c.d_ff = f.size("intermediate_size");
  c.activation = f.activation("hidden_act", "quick_gelu");
  c.norm_epsilon = f.number("layer_norm_eps", 1e-5);
  c.init_deviation = f.number("initializer_range", 0.02);
  f.pass_over({"projection_dim", "dropout"});
  return c;
}

ModelConfig text(const ConfigFields& f) {
  ModelConfig c = tower(f);
  c.family = Family::kDecoder;
  c.vocab = f.size("vocab_size");
  c.max_length = f.size("max_position_embeddings", 77);
  c.pool = Pool::kLargest;  // the end of a text has the highest id
  const std::int64_t end = f.token("eos_token_id");
  f.refuse(end > 2 && end + 1 != static_cast<std::int64_t>(c.vocab),
           "texts whose end is not the last word of the vocabulary");
  return c;
}

ModelConfig vision(const ConfigFields& f) {
  ModelConfig c = tower(f);
  c.family = Family::kEncoder;
  c.vocab = 1;  // no tokens
  c.stem = StemKind::kPatches;
  c.stem_bias = false;
  c.channels = f.size("num_channels", 3);
  c.image = f.size("image_size", 224);
  c.patch = f.size("patch_size", 32);
  require(c.patch > 0, "[{}] patch_size is 0; need 1 or more", ConfigFields::kWho);
  c.max_length = 1 + (c.image / c.patch) * (c.image / c.patch);
  c.embedding_norm = true;
  c.pool = Pool::kFirst;
  return c;
}

void place_layers(Placer& p, const std::string& tower) {
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = p.source_layer(tower + ".encoder.layers", i);
    const std::string self = from + ".self_attn";
    const std::string to = p.layer(i);
    p.norm(from + ".layer_norm1", to + ".attention_norm");
    p.qkv(self + ".q_proj", self + ".k_proj", self + ".v_proj", to + ".attention");
    p.attention_out(self + ".out_proj", to + ".attention");
    p.norm(from + ".layer_norm2", to + ".feed_forward_norm");
    p.linear(from + ".mlp.fc1", to + ".feed_forward.in");
    p.linear(from + ".mlp.fc2", to + ".feed_forward.out");
  }
}

void place_text(Placer& p) {
  p.whole("text_model.embeddings.token_embedding.weight", "embedding.tokens");
  p.whole("text_model.embeddings.position_embedding.weight", "embedding.positions");
  place_layers(p, "text_model");
  p.norm("text_model.final_layer_norm", "decoder.norm");
}

void place_vision(Placer& p) {
  p.whole("vision_model.embeddings.class_embedding", "embedding.class_token");
  p.whole("vision_model.embeddings.patch_embedding.weight", "embedding.patches.weight");
  p.whole("vision_model.embeddings.position_embedding.weight", "embedding.positions");
  p.norm("vision_model.pre_layrnorm", "embedding.norm");
  place_layers(p, "vision_model");
  p.norm("vision_model.post_layernorm", "encoder.norm");
}

// Not classes but coordinates, in the space that both towers share.
void projected(const ConfigFields& f, ModelConfig& c) {
  c.head = HeadKind::kClassifier;
  c.classes = f.size("projection_dim", 512);
  c.loss = "weighted-sum";
  c.head_transform = false;
  c.head_bias = false;
}

void place_text_projection(Placer& p) { p.whole("text_projection.weight", "head.output.weight"); }

void place_visual_projection(Placer& p) {
  p.whole("visual_projection.weight", "head.output.weight");
}

constexpr CheckpointHead kTextHeads[] = {
    {"CLIPTextModel", &heads::bare, &heads::nothing},
    {"CLIPTextModelWithProjection", &projected, &place_text_projection},
};
constexpr CheckpointHead kVisionHeads[] = {
    {"CLIPVisionModelWithProjection", &projected, &place_visual_projection},
};

}  // namespace

}  // namespace clip_family

extern const CheckpointFamily kClipText{"clip_text_model", "", &clip_family::text,
                                        &clip_family::place_text, clip_family::kTextHeads};
extern const CheckpointFamily kClipVision{"clip_vision_model", "", &clip_family::vision,
                                          &clip_family::place_vision, clip_family::kVisionHeads};

}  // namespace longspan
