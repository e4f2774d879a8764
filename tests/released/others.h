// Sizes of released models, written from the structure of the reference classes; nothing here knows
// the library. Recurrent models, images, and images with text.
#pragma once

#include "tests/released/config.h"

namespace released {

// Recurrent.

inline u64 mamba_inner(const json& c) {
  return num(c, "intermediate_size", num(c, "expand", 2) * hidden(c));
}
inline u64 mamba_rank(const json& c) {
  if (!has(c, "time_step_rank") || c.at("time_step_rank").is_string()) return (hidden(c) + 15) / 16;
  return num(c, "time_step_rank");
}
inline u64 mamba_parameters(const json& c) {
  const u64 d = hidden(c), i = mamba_inner(c), s = num(c, "state_size", 16), r = mamba_rank(c);
  const u64 k = num(c, "conv_kernel", 4);
  const bool bias = flag(c, "use_bias", false);
  const u64 layer = rms_norm(d) + linear(d, 2 * i, bias) + i * k +
                    (flag(c, "use_conv_bias", true) ? i : 0) + i * (r + 2 * s) + linear(r, i) +
                    i * s + i + linear(i, d, bias);
  return rms_decoder(c, layer, true);
}
inline u64 mamba2_parameters(const json& c) {
  const u64 d = hidden(c), i = num(c, "expand", 2) * d, h = num(c, "num_heads", 128);
  const u64 gs = num(c, "n_groups", 8) * num(c, "state_size", 128), k = num(c, "conv_kernel", 4);
  const bool bias = flag(c, "use_bias", false);
  const u64 width = i + 2 * gs;
  const u64 layer = rms_norm(d) + linear(d, i + width + h, bias) + width * k +
                    (flag(c, "use_conv_bias", true) ? width : 0) + 3 * h + rms_norm(i) +
                    linear(i, d, bias);
  return rms_decoder(c, layer, false);
}
// RWKV-4: a third norm in the first layer; a free head.
inline u64 rwkv_parameters(const json& c) {
  const u64 d = hidden(c), a = num(c, "attention_hidden_size", d);
  const u64 f = num(c, "intermediate_size", 4 * d), n = layers_of(c);
  const u64 layer =
      2 * layer_norm(d) + 2 * a + 3 * d + 3 * d * a + a * d + 2 * d + d * f + d * d + f * d;
  return vocab(c) * d + n * layer + (n > 0 ? layer_norm(d) : 0) + layer_norm(d) +
         decoder_head(c, d, false);
}

// Images, and images with text.

inline u64 patches(const json& c) {
  const u64 side = num(c, "image_size") / num(c, "patch_size");
  return side * side;
}
inline u64 patch_embedding(const json& c, bool bias) {
  const u64 p = num(c, "patch_size");
  return linear(num(c, "num_channels", 3) * p * p, hidden(c), bias);
}
// ViT and DeiT (a second, distillation token).
inline u64 vit_parameters(const json& c) {
  const u64 d = hidden(c), f = ffn(c), extra = model_type(c) == "deit" ? 2 : 1;
  const bool bias = flag(c, "qkv_bias", true);
  const u64 layer =
      3 * linear(d, d, bias) + linear(d, d) + linear(d, f) + linear(f, d) + 2 * layer_norm(d);
  const u64 body = extra * d + (patches(c) + extra) * d + patch_embedding(c, true) +
                   layers_of(c) * layer + layer_norm(d);
  const std::string head = head_of(c);
  if (head == "Model") return body + linear(d, num(c, "pooler_output_size", d));
  if (head == "ForImageClassification") return body + linear(d, labels(c));
  if (head == "ForImageClassificationWithTeacher") return body + 2 * linear(d, labels(c));
  unknown_head(c);
}
// DINOv2: a mask token, and a scale per channel after each branch.
inline u64 dinov2_parameters(const json& c) {
  const u64 d = hidden(c), f = num(c, "mlp_ratio", 4) * d;
  const u64 mlp = flag(c, "use_swiglu_ffn", false) ? linear(d, 2 * ((f * 2 / 3 + 7) / 8 * 8)) +
                                                         linear((f * 2 / 3 + 7) / 8 * 8, d)
                                                   : linear(d, f) + linear(f, d);
  const u64 layer = 4 * linear(d, d) + mlp + 2 * layer_norm(d) + 2 * d;
  const u64 body = 2 * d + (patches(c) + 1) * d + patch_embedding(c, true) + layers_of(c) * layer +
                   layer_norm(d);
  const std::string head = head_of(c);
  if (head == "Model") return body;
  if (head == "ForImageClassification") return body + linear(2 * d, labels(c));
  unknown_head(c);
}

inline u64 clip_text_body(const json& c) {
  const u64 d = num(c, "hidden_size", 512);
  return (num(c, "vocab_size", 49408) + num(c, "max_position_embeddings", 77)) * d +
         num(c, "num_hidden_layers", 12) * encoder_layer(d, num(c, "intermediate_size", 2048)) +
         layer_norm(d);
}
inline u64 clip_vision_body(const json& c) {
  const u64 d = num(c, "hidden_size", 768), p = num(c, "patch_size", 32);
  const u64 side = num(c, "image_size", 224) / p;
  return d + num(c, "num_channels", 3) * p * p * d + (side * side + 1) * d + 2 * layer_norm(d) +
         num(c, "num_hidden_layers", 12) * encoder_layer(d, num(c, "intermediate_size", 3072));
}
inline const json& clip_part(const json& c, const char* key) {
  static const json none = json::object();
  return has(c, key) ? c.at(key) : none;
}
// CLIP: two towers, a projection of each without bias, and the temperature.
inline u64 clip_parameters(const json& c) {
  const std::string type = model_type(c), head = head_of(c);
  const u64 p = num(c, "projection_dim", 512);
  if (type == "clip_text_model")
    return clip_text_body(c) +
           (head == "TextModelWithProjection" ? num(c, "hidden_size", 512) * p : 0);
  if (type == "clip_vision_model")
    return clip_vision_body(c) +
           (head == "VisionModelWithProjection" ? num(c, "hidden_size", 768) * p : 0);
  const json& words = clip_part(c, "text_config");
  const json& image = clip_part(c, "vision_config");
  return clip_text_body(words) + clip_vision_body(image) + 1 +
         p * (num(words, "hidden_size", 512) + num(image, "hidden_size", 768));
}

// Perceiver for masked bytes: latents read the bytes once, talk to each other, and are read by one
// query per position. The head is the byte embedding and a bias.
inline u64 perceiver_parameters(const json& c) {
  if (head_of(c) != "ForMaskedLM") unknown_head(c);
  const u64 d = num(c, "d_model", 768), z = num(c, "d_latents", 1280);
  const u64 qk = num(c, "qk_channels", z), v = num(c, "v_channels", qk);
  const u64 rows = num(c, "max_position_embeddings", 2048), words = num(c, "vocab_size", 262);
  const u64 cross = num(c, "cross_attention_widening_factor", 1) * z;
  const u64 self = num(c, "self_attention_widening_factor", 1) * z;
  const u64 read = layer_norm(z) + layer_norm(d) + linear(z, qk) + linear(d, qk) + linear(d, v) +
                   linear(v, z) + layer_norm(z) + linear(z, cross) + linear(cross, z);
  const u64 talk = layer_norm(z) + 2 * linear(z, qk) + linear(z, v) + linear(v, z) + layer_norm(z) +
                   linear(z, self) + linear(self, z);
  const u64 write = layer_norm(d) + layer_norm(z) + linear(d, 256) + linear(z, 256) + linear(z, d) +
                    linear(d, d) + layer_norm(d) + 2 * linear(d, d);
  return words * d + rows * d + num(c, "num_latents", 256) * z + read +
         num(c, "num_self_attends_per_block", 26) * talk + rows * d + write + words;
}

}  // namespace released
