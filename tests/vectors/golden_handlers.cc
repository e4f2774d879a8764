#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "longspan/attention/registry.h"
#include "longspan/base/error.h"
#include "tests/vectors/golden_attention.h"
#include "tests/vectors/golden_case.h"
#include "tests/vectors/golden_clustered.h"
#include "tests/vectors/golden_events.h"
#include "tests/vectors/golden_feature.h"
#include "tests/vectors/golden_latent.h"
#include "tests/vectors/golden_model.h"
#include "tests/vectors/golden_pepita.h"
#include "tests/vectors/golden_recall.h"
#include "tests/vectors/golden_reformer.h"
#include "tests/vectors/golden_rotary.h"
#include "tests/vectors/golden_sparse.h"

namespace longspan::golden {

namespace {

constexpr std::array<std::string_view, 2> kSoftmaxMechanisms = {"full", "flash"};

void run_full(const Case& golden, Comparison& comparison) {
  for (const std::string_view mechanism : kSoftmaxMechanisms) {
    comparison.begin(mechanism);
    run_attention(golden, *LoneAttention(mechanism, {}), comparison);
    comparison.finish();
  }
}

// A window holds the query's own token.
void run_sinks(const Case& golden, Comparison& comparison) {
  const std::size_t window = golden.config().value("window", std::size_t{0});
  const std::string before = window == 0 ? "" : fmt::format(",before={}", window - 1);
  comparison.begin("flash");
  run_sited_attention(golden, "flash:sinks=true" + before,
                      std::array{OwnParameter{"attention.sinks", "sinks"}}, comparison);
  comparison.finish();
}

constexpr std::array<LayerWeight, 4> kLayerWeights = {{
    {"in_proj_weight", "layer.qkv.weight"},
    {"in_proj_bias", "layer.qkv.bias"},
    {"out_proj.weight", "layer.out.weight"},
    {"out_proj.bias", "layer.out.bias"},
}};

void run_softmax_layer(const Case& golden, Comparison& comparison) {
  for (const std::string_view mechanism : kSoftmaxMechanisms) {
    comparison.begin(mechanism);
    MultiHeadAttentionConfig config;
    config.d_model = golden.file().at("x").shape.back();
    config.heads = config.kv_heads = golden.config().at("heads").get<std::size_t>();
    config.causal = golden.config().value("causal", false);
    config.attention = mechanism;
    run_layer(golden, config, kLayerWeights, comparison);
    comparison.finish();
  }
}

void run_local_layer(const Case& golden, Comparison& comparison) {
  const nlohmann::json& c = golden.config();
  MultiHeadAttentionConfig config;
  config.d_model = golden.file().at("x").shape.back();
  config.heads = config.kv_heads = c.at("heads").get<std::size_t>();
  config.causal = c.at("causal").get<bool>();
  config.bias = config.output_bias = false;
  config.attention = fmt::format(
      "local:block={},before={},after={}", c.at("chunk_length").get<std::size_t>(),
      c.at("chunks_before").get<std::size_t>(), c.at("chunks_after").get<std::size_t>());
  const std::size_t d = config.d_model;
  const std::array<LayerWeight, 3> weights = {{{"query.weight", "layer.qkv.weight", 0, d},
                                               {"key.weight", "layer.qkv.weight", d, d},
                                               {"value.weight", "layer.qkv.weight", 2 * d, d}}};
  comparison.begin("local");
  run_layer(golden, config, weights, comparison);
  comparison.finish();
}

constexpr Handler kHandlers[] = {
    {"full softmax attention", &run_full},
    {"softmax attention with learnable sinks", &run_sinks},
    {"softmax attention with learnable sinks, sliding window", &run_sinks},
    {"multi-head self-attention layer", &run_softmax_layer},
    {"multi-head latent attention (MLA)", &run_latent},
    {"multi-head latent attention (MLA), direct query projection", &run_latent},
    {"linear transformer (elu+1) bidirectional", &run_linear},
    {"linear transformer (elu+1) causal", &run_linear},
    {"linear attention with softmax feature maps (efficient attention), bidirectional",
     &run_efficient},
    {"Linformer self-attention", &run_linformer_layer},
    {"Linformer language model (whole model)", &run_linformer_model},
    {"Performer FAVOR+ generalized ReLU bidirectional", &run_performer},
    {"Performer FAVOR+ generalized ReLU causal", &run_performer},
    {"Performer FAVOR+ softmax kernel bidirectional", &run_performer},
    {"Performer FAVOR+ softmax kernel causal", &run_performer},
    {"Performer FAVOR+ softmax kernel without epsilon bidirectional", &run_performer},
    {"Performer FAVOR+ softmax kernel without epsilon causal", &run_performer},
    {"clustered attention", &run_clustered},
    {"improved clustered attention", &run_improved_clustered},
    {"Reformer LSH attention (shared QK)", &run_reformer},
    {"Reformer LSH self-attention layer", &run_reformer_layer},
    {"BigBird block-sparse attention", &run_bigbird},
    {"Longformer sliding-window + global attention", &run_longformer},
    {"DeBERTa v1 disentangled attention", &run_deberta_v1},
    {"DeBERTa v2 disentangled attention", &run_deberta_v2},
    {"Transformer-XL relative attention with memory", &run_transformer_xl},
    {"whole model: TransfoXLLMHeadModel", &run_segment_model},
    {"whole model: CLIPModel", &run_two_towers},
    {"chunked local self-attention layer (Reformer)", &run_local_layer},
    {"PEPITA training step", &run_pepita},
    {"Transformer Hawkes Process", &run_published_events},
    {"multi-query associative recall (MQAR) batch", &run_recall},
    {"rotary frequency tables (linear, dynamic NTK, YaRN, Llama-3, partial)", &run_rotary},
};

}  // namespace

const Handler* find_handler(std::string_view mechanism) {
  static constexpr Handler kWholeModel{"whole model: ", &run_model};
  const auto* const own = std::ranges::find(kHandlers, mechanism, &Handler::mechanism);
  if (own != std::end(kHandlers)) return own;
  return mechanism.starts_with(kWholeModel.mechanism) ? &kWholeModel : nullptr;
}

}  // namespace longspan::golden
