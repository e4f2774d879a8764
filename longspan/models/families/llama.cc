// Llama 1 to 3.2 (Touvron et al., 2023, arXiv:2302.13971; arXiv:2407.21783), SmolLM among them.
#include "longspan/models/families/llama_like.h"

namespace longspan {

namespace llama_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  ModelConfig c = llama_sizes(f);
  c.tied = f.flag("tie_word_embeddings", false);
  set_rotary(f, {}, c);
  const bool bias = f.flag("attention_bias", false);
  set_biases({.projections = bias, .output = bias, .feed_forward = f.flag("mlp_bias", false)}, c);
  f.pass_over({"rope_interleaved", "is_llama_config", "max_sequence_length"});
  f.refuse(f.flag("rope_interleaved", false), "rotary positions of neighbouring channels");
  return c;
}

constexpr CheckpointHead kHeads[] = {
    {"LlamaForCausalLM", &heads::causal, &heads::place_causal},
    {"LlamaForSequenceClassification", &heads::last_classifier, &heads::place_score},
    {"LlamaModel", &heads::bare, &heads::nothing},
};

}  // namespace

}  // namespace llama_family

extern const CheckpointFamily kLlama{"llama", "model", &llama_family::config, &place_llama,
                                     llama_family::kHeads};

}  // namespace longspan
