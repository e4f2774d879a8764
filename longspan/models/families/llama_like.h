// What Llama and its many relatives have in common: RMSNorm before each branch, rotary positions,
// grouped queries, gated feed-forwards, and the names of their tensors.
#pragma once

#include <string>
#include <vector>

#include "longspan/models/families/biases.h"
#include "longspan/models/families/family.h"
#include "longspan/models/families/heads.h"
#include "longspan/models/families/rope.h"
#include "longspan/models/families/turns.h"

namespace longspan {

// What is meant where the config is silent.
struct LlamaDefaults {
  std::size_t kv_heads = 0;  // 0: as many as heads; so is null
  std::size_t length = 2048;
  double epsilon = 1e-6;
  std::size_t head_width = 0;  // 0: d_model / heads
};
// Layers, widths, heads, vocabulary and length, without biases; no rotary positions yet.
ModelConfig llama_sizes(const ConfigFields& f, const LlamaDefaults& defaults = {});

// "flash" with these options; a window of so many tokens, the query's own among them.
std::string windowed(const std::string& options, std::size_t window);
// Which layers have a window: those that layer_types calls sliding_attention, or where there are no
// such names what `otherwise` says of layer i.
template <class Otherwise>
std::vector<bool> sliding_layers(const ConfigFields& f, std::size_t layers, Otherwise otherwise) {
  std::vector<bool> sliding(layers);
  if (!f.has("layer_types")) {
    for (std::size_t i = 0; i < layers; ++i) sliding[i] = otherwise(i);
    return sliding;
  }
  const std::vector<std::string> types = f.texts("layer_types");
  require(types.size() == layers, "[{}] layer_types names {} layers; the model has {}",
          ConfigFields::kWho, types.size(), layers);
  for (std::size_t i = 0; i < layers; ++i) {
    require(types[i] == "sliding_attention" || types[i] == "full_attention",
            "[{}] layer_types has '{}'; need sliding_attention or full_attention",
            ConfigFields::kWho, types[i]);
    sliding[i] = types[i] == "sliding_attention";
  }
  return sliding;
}
// One attention for each layer, with the window where it slides.
std::string attention_of(const std::vector<bool>& sliding, const std::string& options,
                         std::size_t window);

void place_llama_ends(Placer& p);
// Attention of layer i: projections, output and norms of queries and keys.
void place_llama_attention(Placer& p, std::size_t i);
void place_llama_feed_forward(Placer& p, std::size_t i);
// The whole body, norms before the branches.
void place_llama(Placer& p);

}  // namespace longspan
