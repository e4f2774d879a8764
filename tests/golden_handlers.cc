#include <algorithm>
#include <array>

#include "longspan/attention/registry.h"
#include "longspan/base/error.h"
#include "longspan/models/pretrained.h"
#include "tests/golden_attention.h"
#include "tests/golden_case.h"
#include "tests/golden_clustered.h"
#include "tests/golden_feature.h"
#include "tests/golden_reformer.h"
#include "tests/golden_sparse.h"

namespace longspan::golden {

namespace {

constexpr std::array<std::string_view, 2> kSoftmaxMechanisms = {"full", "flash"};

void run_full(const Case& golden, Comparison& comparison) {
  for (const std::string_view mechanism : kSoftmaxMechanisms) {
    comparison.begin(mechanism);
    run_attention(golden, *make_attention(mechanism), comparison);
    comparison.finish();
  }
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

// Real tokens of each sequence, from a mask of ones that may end before the row does.
std::vector<std::int32_t> lengths_of(const std::vector<std::int32_t>& mask, std::size_t batch,
                                     std::size_t length) {
  std::vector<std::int32_t> lengths;
  if (mask.empty()) return lengths;
  for (std::size_t b = 0; b < batch; ++b) {
    const std::span<const std::int32_t> row(mask.data() + b * length, length);
    const auto end = std::ranges::find(row, 0);
    require(std::all_of(end, row.end(), [](std::int32_t m) { return m == 0; }),
            "[golden] the attention mask of sequence {} has a gap; need padding at the end", b);
    lengths.push_back(static_cast<std::int32_t>(end - row.begin()));
  }
  return lengths;
}

// The reference ignores −100, and a causal model predicts the next token.
std::vector<std::int32_t> targets_of(std::vector<std::int32_t> labels, bool causal,
                                     std::size_t length) {
  constexpr std::int32_t kTheirIgnored = -100;
  std::ranges::replace(labels, kTheirIgnored, kIgnoredTarget);
  if (!causal) return labels;
  for (std::size_t first = 0; first + length <= labels.size(); first += length) {
    const auto row = labels.begin() + static_cast<std::ptrdiff_t>(first);
    std::shift_left(row, row + static_cast<std::ptrdiff_t>(length), 1);
    labels[first + length - 1] = kIgnoredTarget;
  }
  return labels;
}

void run_model_with(std::string_view mechanism, const Case& golden, Comparison& comparison) {
  const nlohmann::json& hf = golden.sidecar().at("hf_config");
  ModelConfig config = config_from_hugging_face(hf);
  config.attention = mechanism;
  const std::vector<WeightPlacement> places = placements(hf);
  Model model(config);
  model.parameters().allocate();
  load_weights(model, golden.weights(), places);

  const Shape shape = golden.file().at("input_ids").shape;
  require(shape.size() == 2, "[golden] input_ids is {}; need [batch, n]", to_string(shape));
  const std::vector<std::int32_t> tokens = golden.integers("input_ids");
  const std::vector<std::int32_t> types = golden.integers("token_type_ids");
  const std::vector<std::int32_t> lengths =
      lengths_of(golden.integers("attention_mask"), shape[0], shape[1]);
  const std::vector<std::int32_t> targets =
      targets_of(golden.integers("labels"), config.family == "decoder", shape[1]);
  Batch batch;
  batch.batch = shape[0];
  batch.length = shape[1];
  batch.tokens = tokens;
  batch.targets = targets;
  batch.lengths = lengths;
  batch.token_types = types;

  const ConstMatrix logits = model.logits(batch);
  comparison.output("logits64", {logits.data, logits.size()});
  // The reference's loss is the mean over the targets that count.
  const float scale = 1.0F / static_cast<float>(count_targets(targets));
  const CrossEntropy result = model.forward(batch, 0, scale);
  const auto loss = static_cast<float>(result.loss / static_cast<double>(result.counted));
  comparison.output("loss64", {&loss, 1});
  model.backward(batch, scale);
  for (const WeightPlacement& place : places) {
    if (place.second_name) continue;
    comparison.gradient("grad." + place.source, placed_gradient(model, place));
  }
}

void run_model(const Case& golden, Comparison& comparison) {
  for (const std::string_view mechanism : kSoftmaxMechanisms) {
    comparison.begin(mechanism);
    run_model_with(mechanism, golden, comparison);
    comparison.finish();
  }
}

constexpr Handler kHandlers[] = {
    {"full softmax attention", &run_full},
    {"multi-head self-attention layer", &run_softmax_layer},
    {"linear transformer (elu+1) bidirectional", &run_linear},
    {"linear transformer (elu+1) causal", &run_linear},
    {"linear attention with softmax feature maps (efficient attention), bidirectional",
     &run_efficient},
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
    {"whole model: BertForSequenceClassification", &run_model},
    {"whole model: DistilBertForMaskedLM", &run_model},
    {"whole model: GPT2LMHeadModel", &run_model},
    {"whole model: RoFormerForMaskedLM", &run_model},
};

}  // namespace

std::span<const Handler> handlers() { return kHandlers; }

}  // namespace longspan::golden
