#include <algorithm>

#include "longspan/kernels/rows/draw_normal.h"
#include "longspan/layers/multi_head_attention.h"
#include "longspan/models/pretrained.h"
#include "tests/vectors/golden_attention.h"
#include "tests/vectors/golden_feature.h"

namespace longspan::golden {

namespace {

// The reference keeps its projections [n, k], ours are [k, n].
std::vector<float> transposed(std::span<const float> x, std::size_t rows) {
  const std::size_t cols = x.size() / rows;
  std::vector<float> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i % cols * rows + i / cols] = x[i];
  return y;
}

// Its to_q, to_k and to_v are rows of our stacked weight; with shared keys and values to_k is both.
struct Part {
  std::string name;
  std::size_t first;  // row
  std::size_t rows;
};

std::vector<Part> parts_of(std::size_t width, std::size_t kv_width, bool share) {
  return {{"to_q.weight", 0, width},
          {"to_k.weight", width, kv_width},
          {share ? "to_k.weight" : "to_v.weight", width + kv_width, kv_width}};
}

// Pre-norm without a norm behind the last layer; no biases in q, k and v.
ModelConfig model_config(const nlohmann::json& theirs) {
  ModelConfig config;
  config.family = Family::kEncoder;
  config.layers = theirs.at("depth").get<std::size_t>();
  config.d_model = theirs.at("dim").get<std::size_t>();
  config.heads = theirs.at("heads").get<std::size_t>();
  config.vocab = theirs.at("vocab").get<std::size_t>();
  config.max_length = theirs.at("n").get<std::size_t>();
  config.attention = "linformer:k=" + std::to_string(theirs.at("k").get<std::size_t>());
  config.final_norm = false;
  config.activation = Activation::kGelu;
  config.tied = false;
  config.head_bias = true;
  return config;
}

std::vector<WeightPlacement> model_places(const ModelConfig& config) {
  std::vector<WeightPlacement> places = {
      {.source = "token_emb.weight", .parameter = "embedding.tokens"},
      {.source = "pos_emb.weight", .parameter = "embedding.positions"},
      {.source = "to_logits.weight", .parameter = "head.output.weight"},
      {.source = "to_logits.bias", .parameter = "head.output.bias"}};
  for (std::size_t i = 0; i < config.layers; ++i) {
    const std::string from = "linformer.net.layers." + std::to_string(i);
    const std::string to = "encoder." + std::to_string(i);
    for (const Part& part : parts_of(config.d_model, config.d_model, false)) {
      places.push_back({.source = from + ".0.fn." + part.name,
                        .parameter = to + ".attention.qkv.weight",
                        .first_row = part.first,
                        .rows = part.rows});
    }
    places.push_back({.source = "", .parameter = to + ".attention.qkv.bias"});
    places.push_back({.source = from + ".0.fn.proj_k",
                      .parameter = to + ".attention.linformer.e",
                      .transpose = true});
    places.push_back({.source = from + ".0.fn.proj_v",
                      .parameter = to + ".attention.linformer.f",
                      .transpose = true});
    const auto both = [&](const std::string& theirs, const std::string& ours) {
      places.push_back({.source = from + theirs + ".weight", .parameter = to + ours + ".weight"});
      places.push_back({.source = from + theirs + ".bias", .parameter = to + ours + ".bias"});
    };
    both(".0.fn.to_out", ".attention.out");
    both(".0.norm", ".attention_norm");
    both(".1.fn.w1", ".feed_forward.in");
    both(".1.fn.w2", ".feed_forward.out");
    both(".1.norm", ".feed_forward_norm");
  }
  return places;
}

}  // namespace

void run_linformer_model(const Case& golden, Comparison& comparison) {
  const ModelConfig config = model_config(golden.config());
  const std::vector<WeightPlacement> places = model_places(config);
  comparison.begin("linformer");
  Model model(config);
  model.allocate(0);
  load_weights(model, golden.weights(), places);
  const std::vector<std::int32_t> tokens = golden.integers("input_ids");
  const std::vector<std::int32_t> targets = golden.integers("labels");
  Batch batch;
  batch.batch = 1;
  batch.length = tokens.size();
  batch.tokens = tokens;
  batch.targets = targets;
  const ConstMatrix logits = model.logits(batch);
  comparison.output("logits64", {logits.data, logits.size()});
  const float scale = 1.0F / static_cast<float>(targets.size());
  const auto loss = static_cast<float>(model.forward(batch, 0, scale).loss) * scale;
  comparison.output("loss64", {&loss, 1});
  model.backward(batch, scale);
  for (const WeightPlacement& place : places) {
    if (place.source.empty()) continue;
    comparison.gradient("grad." + place.source, source_gradient(model, places, place.source));
  }
  comparison.finish();
}

void run_linformer_layer(const Case& golden, Comparison& comparison) {
  const SafetensorsFile& file = golden.file();
  const auto& theirs = golden.config();
  const Shape shape = file.at("x").shape;
  const bool share = theirs.value("share_kv", false);
  const std::size_t width = shape.at(2);
  MultiHeadAttentionConfig config;
  config.d_model = width;
  config.heads = theirs.at("heads").get<std::size_t>();
  config.kv_heads = theirs.value("one_kv_head", false) ? 1 : config.heads;
  config.max_length = theirs.at("seq_len").get<std::size_t>();
  config.attention = "linformer:k=" + std::to_string(theirs.at("k").get<std::size_t>()) +
                     (share ? ",sharing=key-value" : ",sharing=headwise");
  comparison.begin("linformer");
  Parameters parameters;
  const MultiHeadAttention layer(parameters, "layer", config);
  parameters.allocate();
  parameters.initialize(1, draw_normal);
  const std::vector<Part> parts = parts_of(width, width / config.heads * config.kv_heads, share);
  const Parameter& qkv = *parameters.find("layer.qkv.weight");
  for (const Part& part : parts) {
    const std::vector<float> w = file.floats("w." + part.name);
    std::ranges::copy(w, qkv.value.begin() + static_cast<std::ptrdiff_t>(part.first * width));
  }
  const std::size_t slots = theirs.at("k").get<std::size_t>();
  const auto set_table = [&](const char* ours, const char* name) {
    const std::vector<float> w = file.floats(name);
    std::ranges::copy(transposed(w, w.size() / slots), parameters.find(ours)->value.begin());
  };
  set_table("layer.linformer.e", "w.proj_k");
  if (!share) set_table("layer.linformer.f", "w.proj_v");
  for (const char* name : {"weight", "bias"}) {
    const Parameter& p = *parameters.find(std::string("layer.out.") + name);
    file.read_into(std::string("w.to_out.") + name, p.shape(), p.value);
  }

  Pass pass;
  pass.batch = shape[0];
  pass.length = shape[1];
  pass.training = true;
  Arena arena = arena_of(layer, pass, width);
  std::vector<float> x = file.floats("x");
  std::vector<float> dy = file.floats("upstream");
  std::vector<float> y(x.size());
  std::vector<float> dx(x.size());
  const auto rows = [&](std::vector<float>& data) {
    return Matrix(data.data(), pass.rows(), width);
  };
  layer.forward({pass, rows(x), rows(y), nullptr, {}, arena});
  comparison.output("out64", y);
  const Kept saved = layer.save(pass, arena);
  layer.forward({pass, rows(x), rows(y), &saved, {}, arena});
  comparison.output("out64", y);
  const Kept signals = layer.backward({pass, saved, rows(dy), rows(dx), {}, arena});
  layer.accumulate({pass, rows(x), saved, rows(dy), signals, {}});

  comparison.gradient("grad.x", dx);
  std::vector<float> dk;
  for (const Part& part : parts) {
    const auto first = qkv.gradient.begin() + static_cast<std::ptrdiff_t>(part.first * width);
    std::vector<float> g(first, first + static_cast<std::ptrdiff_t>(part.rows * width));
    if (share && part.name == "to_k.weight") {
      if (dk.empty()) {
        dk = g;
        continue;
      }
      for (std::size_t i = 0; i < g.size(); ++i) g[i] += dk[i];
    }
    comparison.gradient("grad.w." + part.name, g);
  }
  const auto table = [&](const char* ours) {
    return transposed(parameters.find(ours)->gradient, slots);
  };
  comparison.gradient("grad.w.proj_k", table("layer.linformer.e"));
  if (!share) comparison.gradient("grad.w.proj_v", table("layer.linformer.f"));
  comparison.gradient("grad.w.to_out.weight", parameters.find("layer.out.weight")->gradient);
  comparison.gradient("grad.w.to_out.bias", parameters.find("layer.out.bias")->gradient);
  comparison.finish();
}

}  // namespace longspan::golden
