// Mistral (Jiang et al., 2023, arXiv:2310.06825): Llama with a window in every layer.
#include "longspan/models/families/llama_like.h"

namespace longspan {

namespace mistral_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  ModelConfig c = llama_sizes(f, {.kv_heads = 8, .length = 131072});
  c.tied = f.flag("tie_word_embeddings", false);
  set_rotary(f, {}, c);
  c.attention = windowed("", f.size_or_none("sliding_window", 4096));
  return c;
}

constexpr CheckpointHead kHeads[] = {
    {"MistralForCausalLM", &heads::causal, &heads::place_causal},
    {"MistralForSequenceClassification", &heads::last_classifier, &heads::place_score},
    {"MistralModel", &heads::bare, &heads::nothing},
};

}  // namespace

}  // namespace mistral_family

extern const CheckpointFamily kMistral{"mistral", "model", &mistral_family::config, &place_llama,
                                       mistral_family::kHeads};

}  // namespace longspan
