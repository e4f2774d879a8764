#include <algorithm>
#include <array>

#include "longspan/attention/registry.h"
#include "longspan/base/error.h"
#include "longspan/layers/multi_head_attention.h"
#include "longspan/models/pretrained.h"
#include "tests/golden_case.h"

namespace longspan::golden {

namespace {

constexpr std::array<std::string_view, 2> kSoftmaxMechanisms = {"full", "flash"};

Heads heads_of(std::vector<float>& data, const Shape& shape) {
  require(shape.size() == 4, "[golden] a tensor of shape {}; need [batch, heads, n, d]",
          to_string(shape));
  return {data.data(), shape[0], shape[1], shape[2], shape[3]};
}

// q, k, v → out, and the gradients of Σ out⊙upstream.
struct AttentionCase {
  std::vector<float> q;
  std::vector<float> k;
  std::vector<float> v;
  std::vector<float> upstream;
  std::vector<std::int32_t> key_lengths;
  AttentionInputs in;
  Shape shape_q;
  Shape shape_k;
  Shape shape_v;
  Shape shape_out;

  explicit AttentionCase(const Case& golden)
      : q(golden.file().floats("q")),
        k(golden.file().floats("k")),
        v(golden.file().floats("v")),
        upstream(golden.file().floats("upstream")),
        key_lengths(golden.integers("key_lengths")),
        shape_q(golden.file().at("q").shape),
        shape_k(golden.file().at("k").shape),
        shape_v(golden.file().at("v").shape),
        shape_out(golden.file().at("upstream").shape) {
    in.q = heads_of(q, shape_q);
    in.k = heads_of(k, shape_k);
    in.v = heads_of(v, shape_v);
    in.mask.causal = golden.config().value("causal", false);
    in.mask.key_lengths = key_lengths;
  }
};

void run_attention(const Case& golden, const Attention& attention, Comparison& comparison) {
  AttentionCase c(golden);
  const AttentionCost cost = attention.cost(shape_of(c.in));
  Arena arena(std::max(cost.forward_scratch, cost.backward_scratch));
  std::vector<float> saved(cost.saved);
  std::vector<float> out(c.upstream.size());
  const Heads y = heads_of(out, c.shape_out);
  attention.forward(c.in, y, {}, arena);
  comparison.output("out64", out);
  attention.forward(c.in, y, saved, arena);
  comparison.output("out64", out);

  std::vector<float> dq(c.q.size());
  std::vector<float> dk(c.k.size());
  std::vector<float> dv(c.v.size());
  attention.backward(
      c.in, y, heads_of(c.upstream, c.shape_out), saved,
      {heads_of(dq, c.shape_q), heads_of(dk, c.shape_k), heads_of(dv, c.shape_v), {}}, arena);
  comparison.gradient("grad.q", dq);
  comparison.gradient("grad.k", dk);
  comparison.gradient("grad.v", dv);
}

void run_full(const Case& golden, Comparison& comparison) {
  for (const std::string_view mechanism : kSoftmaxMechanisms) {
    comparison.begin(mechanism);
    run_attention(golden, *make_attention(mechanism), comparison);
    comparison.finish();
  }
}

// A layer's weight: the reference's name and ours.
struct LayerWeight {
  std::string_view theirs;
  std::string_view ours;
};
constexpr std::array<LayerWeight, 4> kLayerWeights = {{
    {"in_proj_weight", "layer.qkv.weight"},
    {"in_proj_bias", "layer.qkv.bias"},
    {"out_proj.weight", "layer.out.weight"},
    {"out_proj.bias", "layer.out.bias"},
}};

void run_layer_with(std::string_view mechanism, const Case& golden, Comparison& comparison) {
  const SafetensorsFile& file = golden.file();
  const Shape shape = file.at("x").shape;
  require(shape.size() == 3, "[golden] x is {}; need [batch, n, width]", to_string(shape));
  Parameters parameters;
  MultiHeadAttentionConfig config;
  config.d_model = shape[2];
  config.heads = config.kv_heads = golden.config().at("heads").get<std::size_t>();
  config.causal = golden.config().value("causal", false);
  config.attention = mechanism;
  const MultiHeadAttention layer(parameters, "layer", config);
  parameters.allocate();
  for (const LayerWeight& w : kLayerWeights) {
    const Parameter& p = *parameters.find(w.ours);
    file.read_into("w." + std::string(w.theirs), p.shape(), p.value);
  }
  const std::vector<std::int32_t> lengths = golden.integers("key_lengths");
  Pass pass;
  pass.batch = shape[0];
  pass.length = shape[1];
  pass.lengths = lengths;
  pass.training = true;
  const Footprint f = layer.footprint(pass);
  Arena arena(f.saved + std::max({f.forward_scratch, f.inference_scratch, f.backward_scratch}));
  std::vector<float> x = file.floats("x");
  std::vector<float> dy = file.floats("upstream");
  std::vector<float> y(x.size());
  std::vector<float> dx(x.size());
  const auto rows = [&](std::vector<float>& data) {
    return Matrix(data.data(), pass.rows(), shape[2]);
  };
  layer.forward(pass, rows(x), rows(y), nullptr, arena);
  comparison.output("out64", y);
  const BranchSaved saved = layer.save(pass, arena);
  layer.forward(pass, rows(x), rows(y), &saved, arena);
  comparison.output("out64", y);
  const BranchSignals signals = layer.backward(pass, saved, rows(dy), rows(dx), arena);
  layer.accumulate(pass, rows(x), saved, rows(dy), signals);
  comparison.gradient("grad.x", dx);
  for (const LayerWeight& w : kLayerWeights) {
    comparison.gradient("grad.w." + std::string(w.theirs), parameters.find(w.ours)->gradient);
  }
}

void run_layer(const Case& golden, Comparison& comparison) {
  for (const std::string_view mechanism : kSoftmaxMechanisms) {
    comparison.begin(mechanism);
    run_layer_with(mechanism, golden, comparison);
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

constexpr std::array<Handler, 6> kHandlers = {{
    {"full softmax attention", &run_full},
    {"multi-head self-attention layer", &run_layer},
    {"whole model: BertForSequenceClassification", &run_model},
    {"whole model: DistilBertForMaskedLM", &run_model},
    {"whole model: GPT2LMHeadModel", &run_model},
    {"whole model: RoFormerForMaskedLM", &run_model},
}};

}  // namespace

std::span<const Handler> handlers() { return kHandlers; }

}  // namespace longspan::golden
