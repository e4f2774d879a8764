#include "tests/vectors/golden_latent.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/layers/latent_attention.h"
#include "tests/vectors/golden_attention.h"

namespace longspan::golden {

namespace {

// 0.1·m·ln s + 1
double amplitude(double factor, double m) {
  return factor <= 1.0 ? 1.0 : 0.1 * m * std::log(factor) + 1.0;
}

RotaryConfig rotary_of_case(const nlohmann::json& c) {
  const nlohmann::json& r = c.at("rope_parameters");
  RotaryConfig config{.base = r.value("rope_theta", 10000.0),
                      .interleaved = c.value("rope_interleave", true)};
  const auto type = r.value("rope_type", std::string("default"));
  if (type == "default") return config;
  config.scaling = type;
  config.factor = r.value("factor", 1.0);
  config.original = r.value("original_max_position_embeddings", std::size_t{0});
  config.low = r.value("low_freq_factor", 1.0);
  config.high = r.value("high_freq_factor", 4.0);
  config.fast = r.value("beta_fast", 32.0);
  config.slow = r.value("beta_slow", 1.0);
  config.truncate = r.value("truncate", true);
  const double m = r.value("mscale", 0.0);
  const double all = r.value("mscale_all_dim", 0.0);
  if (m > 0.0 && all > 0.0) {
    config.attention = amplitude(config.factor, m) / amplitude(config.factor, all);
  }
  config.attention = r.value("attention_factor", config.attention);
  return config;
}

std::size_t number(const nlohmann::json& c, const char* name) {
  const nlohmann::json& value = c.at(name);
  return value.is_null() ? 0 : value.get<std::size_t>();
}

std::vector<LayerWeight> weights_of(const Case& golden) {
  constexpr std::array<LayerWeight, 11> kWeights = {{
      {"q_proj.weight", "layer.query.weight"},
      {"q_a_proj.weight", "layer.query_down.weight"},
      {"q_a_proj.bias", "layer.query_down.bias"},
      {"q_a_layernorm.weight", "layer.query_norm.weight"},
      {"q_b_proj.weight", "layer.query_up.weight"},
      {"kv_a_proj_with_mqa.weight", "layer.key_down.weight"},
      {"kv_a_proj_with_mqa.bias", "layer.key_down.bias"},
      {"kv_a_layernorm.weight", "layer.key_norm.weight"},
      {"kv_b_proj.weight", "layer.key_up.weight"},
      {"o_proj.weight", "layer.out.weight"},
      {"o_proj.bias", "layer.out.bias"},
  }};
  std::vector<LayerWeight> weights;
  for (const LayerWeight& w : kWeights) {
    if (golden.file().contains("w." + std::string(w.theirs))) weights.push_back(w);
  }
  return weights;
}

struct Layer {
  Layer(const Case& golden, LatentForm form) {
    const nlohmann::json& c = golden.config();
    options = {.rank = number(c, "kv_lora_rank"),
               .query_rank = number(c, "q_lora_rank"),
               .nope = number(c, "nope"),
               .rope = number(c, "rope"),
               .value = number(c, "v_head_dim"),
               .scale = golden.file().doubles("softmax_scale").front(),
               .form = form};
    const std::size_t length = golden.file().at("x").shape[1];
    const auto table = std::make_shared<RotaryTable>(rotary_of_case(c), length, options.rope);
    table->allocate();
    const bool bias = c.value("bias", false);
    branch.emplace(parameters, "layer", options,
                   MultiHeadAttentionConfig{.d_model = golden.file().at("x").shape.back(),
                                            .heads = number(c, "heads"),
                                            .causal = true,
                                            .bias = bias,
                                            .output_bias = bias,
                                            .rotary = table});
    parameters.allocate();
  }
  LatentAttentionConfig options;
  Parameters parameters;
  std::optional<LatentAttention> branch;
};

// Every token by itself, behind those in the cache.
void compare_decoding(const Case& golden, const Layer& layer, Comparison& comparison) {
  const Shape shape = golden.file().at("x").shape;
  const std::size_t d = shape[2];
  DecodeCache cache{.batch = shape[0], .capacity = shape[1]};
  layer.branch->size_cache(0, cache);
  std::vector<float> memory(cache.floats);
  cache.data = memory.data();
  cache.clear();
  Beside beside;
  beside.cache = &cache;
  const std::vector<float> x = golden.file().floats("x");
  std::vector<float> y(x.size());
  std::vector<float> token(shape[0] * d);
  std::vector<float> given(token.size());
  Arena arena(std::size_t{1} << 24U);
  Pass pass;
  pass.batch = shape[0];
  pass.length = 1;
  for (; cache.used < shape[1]; ++cache.used) {
    const auto place = [&](std::size_t b) {
      return static_cast<std::ptrdiff_t>((b * shape[1] + cache.used) * d);
    };
    for (std::size_t b = 0; b < shape[0]; ++b) {
      std::copy_n(x.begin() + place(b), d, token.begin() + static_cast<std::ptrdiff_t>(b * d));
    }
    layer.branch->forward({pass, Matrix(token.data(), shape[0], d),
                           Matrix(given.data(), shape[0], d), nullptr, beside, arena});
    for (std::size_t b = 0; b < shape[0]; ++b) {
      std::copy_n(given.begin() + static_cast<std::ptrdiff_t>(b * d), d, y.begin() + place(b));
    }
  }
  comparison.output("out64", y);
  const std::size_t rank = layer.options.rank;
  const std::size_t width = rank + layer.options.rope;
  std::vector<float> latent;
  std::vector<float> rope;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    (i % width < rank ? latent : rope).push_back(memory[i]);
  }
  if (golden.file().contains("cache_latent")) comparison.output("cache_latent", latent);
  if (golden.file().contains("cache_k_rope")) comparison.output("cache_k_rope", rope);
}

}  // namespace

void run_latent(const Case& golden, Comparison& comparison) {
  for (const LatentForm form : {LatentForm::kAuto, LatentForm::kExpanded, LatentForm::kAbsorbed}) {
    comparison.begin(name_of(form));
    Layer layer(golden, form);
    compare_layer(golden, *layer.branch, layer.parameters, weights_of(golden), comparison);
    compare_decoding(golden, layer, comparison);
    comparison.finish();
  }
}

}  // namespace longspan::golden
