// Longformer (Beltagy et al., 2020, arXiv:2004.05150).
#include <fmt/format.h>

#include <algorithm>

#include "longspan/models/families/bert_like.h"
#include "longspan/models/families/heads.h"

namespace longspan {

namespace longformer_family {

namespace {

// One window for all layers, or one for each.
ModelConfig config(const ConfigFields& f) {
  ModelConfig c = bert_config(f, {.padding_token = 1});
  offset_positions(c);
  std::vector<std::size_t> windows = f.sizes("attention_window");
  require(!windows.empty(), "[{}] attention_window is empty; need one, or one for each layer",
          ConfigFields::kWho);
  require(windows.size() == 1 || windows.size() == c.layers,
          "[{}] attention_window has {} numbers for {} layers; need one, or one for each layer",
          ConfigFields::kWho, windows.size(), c.layers);
  if (std::ranges::count(windows, windows.front()) == std::ssize(windows)) windows.resize(1);
  c.attention = fmt::format("longformer:window={}", fmt::join(windows, "|longformer:window="));
  f.refuse(f.text("position_embedding_type", "absolute") != "absolute", "relative positions");
  f.pass_over({"onnx_export", "ignore_attention_mask", "attention_mode", "attention_dilation"});
  return c;
}

void place(Placer& p) {
  place_bert(p);
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string self = p.source_layer("encoder.layer", i) + ".attention.self";
    const std::string to = p.layer(i) + ".attention.global";
    const std::size_t d = p.config().d_model;
    p.rows(self + ".query_global", to, 0, d, BiasOf::kAny);
    p.rows(self + ".key_global", to, d, d, BiasOf::kAny);
    p.rows(self + ".value_global", to, 2 * d, d, BiasOf::kAny);
  }
}

constexpr CheckpointHead kHeads[] = {
    {"LongformerModel", &heads::pooled, &heads::place_pooled},
    {"LongformerForMaskedLM", &heads::gelu_masked, &heads::place_lm_head},
    {"LongformerForSequenceClassification", &heads::tanh_classifier,
     &heads::place_dense_classifier},
    {"LongformerForTokenClassification", &heads::tagger, &heads::place_tagger},
    {"LongformerForQuestionAnswering", &heads::answers, &heads::place_answers},
};

}  // namespace

}  // namespace longformer_family

extern const CheckpointFamily kLongformer{"longformer", "longformer", &longformer_family::config,
                                          &longformer_family::place, longformer_family::kHeads};

}  // namespace longspan
