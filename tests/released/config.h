// Sizes of released models, written from the structure of the reference classes; nothing here knows
// the library. Reading a config, and the pieces that models are built of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace released {

using json = nlohmann::json;
using u64 = std::uint64_t;

// Reading a config.

inline bool has(const json& c, const char* key) { return c.contains(key) && !c.at(key).is_null(); }

inline u64 num(const json& c, const char* key) {
  if (!has(c, key)) throw std::invalid_argument(std::string("[released] config has no ") + key);
  return c.at(key).get<u64>();
}
inline u64 num(const json& c, const char* key, u64 fallback) {
  return has(c, key) ? c.at(key).get<u64>() : fallback;
}
inline bool flag(const json& c, const char* key, bool fallback) {
  return has(c, key) ? c.at(key).get<bool>() : fallback;
}
inline std::string text(const json& c, const char* key, const char* fallback) {
  return has(c, key) ? c.at(key).get<std::string>() : std::string(fallback);
}
inline std::string model_type(const json& c) { return text(c, "model_type", ""); }

// The class of the checkpoint without the name of the family: "Model", "ForMaskedLM", ... Without
// `architectures`, the bare model.
inline std::string head_of(const json& c) {
  if (!has(c, "architectures") || c.at("architectures").empty()) return "Model";
  const std::string name = c.at("architectures").at(0).get<std::string>();
  if (name.ends_with("LMHeadModel")) return "LMHeadModel";
  if (name.ends_with("WithLMHead")) return "WithLMHead";
  if (name.ends_with("DoubleHeadsModel")) return "DoubleHeadsModel";
  if (name.ends_with("EncoderModel")) return "EncoderModel";
  if (name.ends_with("BaseModel")) return "BaseModel";
  if (name.ends_with("TextModelWithProjection")) return "TextModelWithProjection";
  if (name.ends_with("VisionModelWithProjection")) return "VisionModelWithProjection";
  if (name.ends_with("TextModel")) return "TextModel";
  if (name.ends_with("VisionModel")) return "VisionModel";
  if (name.ends_with("MTModel")) return "ForConditionalGeneration";  // MarianMTModel
  for (auto at = name.find("For"); at != std::string::npos; at = name.find("For", at + 1)) {
    const char next = at + 3 < name.size() ? name[at + 3] : ' ';  // not the For of RoFormer
    if (at > 0 && next >= 'A' && next <= 'Z') return name.substr(at);
  }
  return "Model";
}

inline u64 labels(const json& c) {
  if (has(c, "num_labels")) return num(c, "num_labels");
  if (has(c, "id2label")) return c.at("id2label").size();
  return num(c, "_num_labels", 2);
}
inline bool tied(const json& c, bool fallback) { return flag(c, "tie_word_embeddings", fallback); }

[[noreturn]] inline void unknown_head(const json& c) {
  throw std::invalid_argument("[released] " + model_type(c) + " has no formula for " + head_of(c));
}
inline bool is_one_of(std::string_view s, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), s) != names.end();
}

// Pieces.

inline u64 linear(u64 in, u64 out, bool bias = true) { return in * out + (bias ? out : 0); }
inline u64 layer_norm(u64 d) { return 2 * d; }  // weight and bias
inline u64 rms_norm(u64 d) { return d; }

// Query, key, value and output of one width, the feed-forward of two layers, two LayerNorms.
inline u64 encoder_layer(u64 d, u64 f) {
  return 4 * linear(d, d) + linear(d, f) + linear(f, d) + 2 * layer_norm(d);
}
// dense, LayerNorm, decoder (tied unless said otherwise) and its bias: BERT's prediction head.
inline u64 prediction_head(u64 d, u64 e, u64 vocab, bool tie = true) {
  return linear(d, e) + layer_norm(e) + vocab + (tie ? 0 : e * vocab);
}
inline u64 hidden(const json& c) { return num(c, "hidden_size"); }
inline u64 layers_of(const json& c) { return num(c, "num_hidden_layers"); }
inline u64 ffn(const json& c) { return num(c, "intermediate_size"); }
inline u64 vocab(const json& c) { return num(c, "vocab_size"); }

}  // namespace released
