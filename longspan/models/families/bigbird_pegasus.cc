// BigBirdPegasus (Zaheer et al., 2020, arXiv:2007.14062): an encoder–decoder whose encoder reads as
// BigBird does, with a norm at the end of each stack.
#include <fmt/format.h>

#include "longspan/models/families/bart_like.h"
#include "longspan/models/families/biases.h"

namespace longspan {

namespace bigbird_pegasus_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  ModelConfig c = bart_sizes(f);
  if (!f.has("max_position_embeddings")) c.max_length = 4096;
  c.activation = f.activation("activation_function", "gelu_new");
  c.embedding_scale = f.flag("scale_embedding", true);
  const bool bias = f.flag("use_bias", false);
  set_biases({.projections = bias, .output = bias, .feed_forward = true}, c);
  const std::size_t block = f.size("block_size", 64);
  const std::size_t random = f.size("num_random_blocks", 3);
  if (f.text("attention_type", "block_sparse") == "block_sparse") {
    c.attention = fmt::format("bigbird:block={},random={},padded=true", block, random);
  }
  c.decoder_attention = "flash";
  c.cross_attention = "flash";
  return c;
}

void place(Placer& p) {
  place_bart_tables(p, true);
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    place_bart_layer(p,
                     {.stack = "encoder",
                      .q = ".self_attn.self.query",
                      .k = ".self_attn.self.key",
                      .v = ".self_attn.self.value",
                      .out = ".self_attn.output"},
                     i);
  }
  for (std::size_t i = 0; i < p.config().decoder_layers; ++i) {
    place_bart_layer(p, {.stack = "decoder"}, i);
  }
  p.norm(p.base("encoder.layernorm_embedding"), "encoder.norm");
  p.norm(p.base("decoder.layernorm_embedding"), "decoder.norm");
}

constexpr CheckpointHead kHeads[] = {
    {"BigBirdPegasusForConditionalGeneration", &generation, &place_generation},
    {"BigBirdPegasusModel", &heads::bare, &heads::nothing},
};

}  // namespace

}  // namespace bigbird_pegasus_family

extern const CheckpointFamily kBigBirdPegasus{
    "bigbird_pegasus", "model", &bigbird_pegasus_family::config, &bigbird_pegasus_family::place,
    bigbird_pegasus_family::kHeads};

}  // namespace longspan
