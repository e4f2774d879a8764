// Whisper (Radford et al., 2023, arXiv:2212.04356): an encoder of sound and a decoder of text. Keys
// have no bias.
#include <fmt/format.h>

#include "longspan/models/families/bart_like.h"

namespace longspan {

namespace whisper_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  ModelConfig c = bart_sizes(f);
  f.refuse(c.embedding_scale, "token vectors that are scaled");
  c.stem = StemKind::kSound;
  c.channels = f.size("num_mel_bins", 80);
  c.max_source_length = f.size("max_source_positions", 1500);
  c.max_length = f.size("max_target_positions", 448);
  c.attention = "flash:key_bias=false";
  c.cross_attention = c.attention;
  f.pass_over({"classifier_proj_size", "use_weighted_layer_sum", "apply_spec_augment",
               "mask_time_prob", "mask_time_length", "mask_time_min_masks", "mask_feature_prob",
               "mask_feature_length", "mask_feature_min_masks", "median_filter_width",
               "alignment_heads", "lang_to_id", "task_to_id"});
  return c;
}

void place_attention(Placer& p, const std::string& from, const std::string& to, bool cross) {
  const std::size_t d = p.config().d_model;
  p.rows(from + ".q_proj", to + (cross ? ".q" : ".qv"), 0, d, BiasOf::kProjections);
  p.whole(from + ".k_proj.weight", to + ".k.weight");
  p.rows(from + ".v_proj", to + (cross ? ".v" : ".qv"), cross ? 0 : d, d, BiasOf::kProjections);
  p.attention_out(from + ".out_proj", to);
}

void place_stack(Placer& p, const std::string& stack, std::size_t layers) {
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string from = p.base(fmt::format("{}.layers.{}", stack, i));
    const std::string to = fmt::format("{}.{}", stack, i);
    place_attention(p, from + ".self_attn", to + ".attention", false);
    p.norm(from + ".self_attn_layer_norm", to + ".attention_norm");
    if (stack == "decoder") {
      place_attention(p, from + ".encoder_attn", to + ".cross", true);
      p.norm(from + ".encoder_attn_layer_norm", to + ".cross_norm");
    }
    p.linear(from + ".fc1", to + ".feed_forward.in");
    p.linear(from + ".fc2", to + ".feed_forward.out");
    p.norm(from + ".final_layer_norm", to + ".feed_forward_norm");
  }
  p.norm(p.base(stack + ".layer_norm"), stack + ".norm");
}

void place(Placer& p) {
  p.both(p.base("encoder.conv1"), "embedding.first");
  p.both(p.base("encoder.conv2"), "embedding.second");
  p.whole(p.base("encoder.embed_positions.weight"), "embedding.positions");
  p.whole(p.base("decoder.embed_tokens.weight"), "decoder_embedding.tokens");
  p.whole(p.base("decoder.embed_positions.weight"), "decoder_embedding.positions");
  place_stack(p, "encoder", p.config().layers);
  place_stack(p, "decoder", p.config().decoder_layers);
}

void place_output(Placer& p) {
  if (p.config().tied) {
    p.second_name("proj_out.weight", "decoder_embedding.tokens");
  } else {
    p.whole("proj_out.weight", "head.output.weight");
  }
}

constexpr CheckpointHead kHeads[] = {
    {"WhisperForConditionalGeneration", &heads::causal, &place_output},
    {"WhisperModel", &heads::bare, &heads::nothing},
};

}  // namespace

}  // namespace whisper_family

extern const CheckpointFamily kWhisper{"whisper", "model", &whisper_family::config,
                                       &whisper_family::place, whisper_family::kHeads};

}  // namespace longspan
