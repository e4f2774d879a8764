// LED (Beltagy et al., 2020, arXiv:2004.05150): BART whose encoder reads as Longformer does.
#include <fmt/format.h>

#include "longspan/models/families/bart_like.h"
#include "longspan/models/families/turns.h"

namespace longspan {

namespace led_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  ModelConfig c = bart_sizes(f);
  c.wiring = Wiring::kPostNorm;
  c.embedding_norm = true;
  c.max_source_length = f.size("max_encoder_position_embeddings", 16384);
  c.max_length = f.size("max_decoder_position_embeddings", 1024);
  std::vector<std::size_t> windows = f.sizes("attention_window");
  if (windows.size() == 1) windows.resize(c.layers, windows.front());
  require(windows.size() == c.layers,
          "[{}] attention_window has {} numbers for {} layers; need one, or one for each layer",
          ConfigFields::kWho, windows.size(), c.layers);
  std::vector<std::string> layers;
  for (const std::size_t window : windows)
    layers.push_back(fmt::format("longformer:window={}", window));
  c.attention = in_turn(layers);
  c.decoder_attention = "flash";
  c.cross_attention = "flash";
  f.pass_over({"attention_probs_dropout_prob", "attention_mode", "attention_dilation",
               "autoregressive", "layernorm_embedding", "normalize_embedding"});
  return c;
}

void place(Placer& p) {
  place_bart_tables(p, true);
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    place_bart_layer(p,
                     {.stack = "encoder",
                      .q = ".self_attn.longformer_self_attn.query",
                      .k = ".self_attn.longformer_self_attn.key",
                      .v = ".self_attn.longformer_self_attn.value",
                      .out = ".self_attn.output"},
                     i);
    const std::string self =
        p.base(fmt::format("encoder.layers.{}.self_attn.longformer_self_attn", i));
    const std::string to = p.layer(i) + ".attention.global";
    const std::size_t d = p.config().d_model;
    p.rows(self + ".query_global", to, 0, d, BiasOf::kAny);
    p.rows(self + ".key_global", to, d, d, BiasOf::kAny);
    p.rows(self + ".value_global", to, 2 * d, d, BiasOf::kAny);
  }
  for (std::size_t i = 0; i < p.config().decoder_layers; ++i) {
    place_bart_layer(p, {.stack = "decoder"}, i);
  }
}

constexpr CheckpointHead kHeads[] = {
    {"LEDForConditionalGeneration", &generation, &place_generation},
    {"LEDModel", &heads::bare, &heads::nothing},
};

}  // namespace

}  // namespace led_family

extern const CheckpointFamily kLed{"led", "led", &led_family::config, &led_family::place,
                                   led_family::kHeads};

}  // namespace longspan
