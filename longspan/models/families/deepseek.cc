// DeepSeek V2 and V3 (2024, arXiv:2405.04434; arXiv:2412.19437): latent attention, and experts beside
// shared ones behind the first layers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "longspan/models/families/llama_like.h"

namespace longspan {

namespace deepseek_family {

namespace {

// The scale of the scores, which YaRN multiplies by the square of its own.
double score_scale(const ConfigFields& f, std::size_t width) {
  double scale = 1.0 / std::sqrt(static_cast<double>(width));
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!f.has(key)) continue;
    const ConfigFields s = f.inside(key);
    const double all = s.exact_number("mscale_all_dim", 0.0);
    const double factor = s.exact_number("factor", 1.0);
    if (all <= 0.0 || factor <= 1.0) continue;
    const double m = 0.1 * all * std::log(factor) + 1.0;
    scale *= m * m;
  }
  return scale;
}

// What is meant where the config is silent; null is none.
struct Defaults {
  bool interleaved;
  std::size_t length;
};

ModelConfig body(const ConfigFields& f, const Defaults& defaults) {
  f.pass_over({"head_dim", "qk_head_dim", "num_key_value_heads"});
  f.refuse(f.flag("mlp_bias", false), "biases in some layers");
  ModelConfig c = llama_sizes(f, {.length = defaults.length});
  c.kv_heads = 0;
  c.head_width = 0;
  c.tied = f.flag("tie_word_embeddings", false);
  const std::size_t nope = f.size("qk_nope_head_dim", 128);
  const std::size_t rope = f.size("qk_rope_head_dim", 64);
  set_rotary(f, {.interleaved = defaults.interleaved}, c);
  c.attention = fmt::format("latent:rank={},query_rank={},nope={},rope={},value={},scale={}",
                            f.size("kv_lora_rank", 512), f.size_or_none("q_lora_rank", 1536), nope,
                            rope, f.size("v_head_dim", 128), score_scale(f, nope + rope));
  if (f.flag("attention_bias", false)) set_biases({.projections = true, .output = true}, c);
  f.pass_over({"aux_loss_alpha", "seq_aux", "ep_size", "pretraining_tp", "scoring_func",
               "topk_method", "norm_topk_prob", "moe_layer_freq", "num_nextn_predict_layers",
               "first_k_dense_replace", "n_group", "topk_group"});
  f.refuse(f.size("moe_layer_freq", 1) != 1, "experts in every other layer");
  return c;
}

std::string experts(const ConfigFields& f, std::size_t shared, double scaling) {
  const std::size_t width = f.size("moe_intermediate_size");
  return fmt::format(
      "experts:experts={},top={},width={},shared={},scaling={},capacity=0,padding=true,balance=0",
      f.size("n_routed_experts"), f.size("num_experts_per_tok"), width,
      width * f.size_or_none("n_shared_experts", shared),
      f.exact_number("routed_scaling_factor", scaling));
}

// Dense layers first, then those with experts.
std::string feed_forwards(std::size_t dense, std::size_t layers, const std::string& experts) {
  std::vector<std::string> turns(layers, experts);
  std::fill_n(turns.begin(), std::min(dense, layers), "dense");
  return in_turn(turns);
}

// Its library takes the gates as they are, whatever norm_topk_prob says.
ModelConfig config_2(const ConfigFields& f) {
  ModelConfig c = body(f, {.interleaved = true, .length = 2048});
  std::string routed = experts(f, 2, 1.0) + ",normalize=false";
  const std::string method = f.text("topk_method", "greedy");
  if (method == "group_limited_greedy") {
    routed +=
        fmt::format(",groups={},top_groups={}", f.size("n_group", 1), f.size("topk_group", 1));
  } else {
    f.refuse(method != "greedy", "another way to choose experts");
  }
  f.refuse(f.text("scoring_func", "softmax") != "softmax", "other scores of experts");
  c.feed_forward = feed_forwards(f.size("first_k_dense_replace", 0), c.layers, routed);
  return c;
}

ModelConfig config_3(const ConfigFields& f) {
  ModelConfig c = body(f, {.interleaved = f.flag("rope_interleave", true), .length = 4096});
  const bool normalize = f.flag("norm_topk_prob", true);
  f.refuse(f.text("scoring_func", "sigmoid") != "sigmoid", "other scores of experts");
  f.refuse(f.text("topk_method", "noaux_tc") != "noaux_tc", "another way to choose experts");
  c.feed_forward = feed_forwards(
      f.size("first_k_dense_replace", 3), c.layers,
      experts(f, 1, 2.5) +
          fmt::format(",score=sigmoid,correction=true,normalize={},normalize_one={},"
                      "groups={},top_groups={},group_score=two-best",
                      normalize, normalize, f.size("n_group", 8), f.size("topk_group", 4)));
  return c;
}

void place_attention(Placer& p, std::size_t i) {
  const std::string self = p.source_layer("layers", i) + ".self_attn";
  const std::string to = p.layer(i) + ".attention";
  const bool two = p.uses("query_rank=") && !p.uses("query_rank=0,");
  if (two) {
    p.linear(self + ".q_a_proj", to + ".query_down", BiasOf::kProjections);
    p.whole(self + ".q_a_layernorm.weight", to + ".query_norm.weight");
    p.whole(self + ".q_b_proj.weight", to + ".query_up.weight");
  } else {
    p.whole(self + ".q_proj.weight", to + ".query.weight");
  }
  p.linear(self + ".kv_a_proj_with_mqa", to + ".key_down", BiasOf::kProjections);
  p.whole(self + ".kv_a_layernorm.weight", to + ".key_norm.weight");
  p.whole(self + ".kv_b_proj.weight", to + ".key_up.weight");
  p.attention_out(self + ".o_proj", to);
}

void place_experts(Placer& p, const std::string& from, const std::string& to) {
  const ExpertSizes sizes = p.expert_sizes();
  for (std::size_t e = 0; e < sizes.experts; ++e) {
    const std::string theirs = fmt::format("{}.experts.{}", from, e);
    const std::string ours = fmt::format("{}.expert.{}", to, e);
    p.gated_of(theirs + ".gate_proj", theirs + ".up_proj", ours, sizes.width);
    p.whole(theirs + ".down_proj.weight", ours + ".out.weight");
  }
  p.whole(from + ".gate.weight", to + ".router.weight");
  if (sizes.correction) {
    p.whole(from + ".gate.e_score_correction_bias", to + ".router.correction");
  }
  if (sizes.shared == 0) return;
  const std::string shared = from + ".shared_experts";
  p.gated_of(shared + ".gate_proj", shared + ".up_proj", to + ".shared", sizes.shared);
  p.whole(shared + ".down_proj.weight", to + ".shared.out.weight");
}

void place(Placer& p) {
  place_llama_ends(p);
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = p.source_layer("layers", i);
    p.norm(from + ".input_layernorm", p.layer(i) + ".attention_norm");
    place_attention(p, i);
    p.norm(from + ".post_attention_layernorm", p.layer(i) + ".feed_forward_norm");
    if (turn_of(p.config().feed_forward, i) == "dense") {
      place_llama_feed_forward(p, i);
    } else {
      place_experts(p, from + ".mlp", p.layer(i) + ".feed_forward");
    }
  }
}

constexpr CheckpointHead kHeads2[] = {
    {"DeepseekV2ForCausalLM", &heads::causal, &heads::place_causal},
    {"DeepseekV2Model", &heads::bare, &heads::nothing},
};
constexpr CheckpointHead kHeads3[] = {
    {"DeepseekV3ForCausalLM", &heads::causal, &heads::place_causal},
    {"DeepseekV3Model", &heads::bare, &heads::nothing},
};

}  // namespace

}  // namespace deepseek_family

extern const CheckpointFamily kDeepseekV2{"deepseek_v2", "model", &deepseek_family::config_2,
                                          &deepseek_family::place, deepseek_family::kHeads2};
extern const CheckpointFamily kDeepseekV3{"deepseek_v3", "model", &deepseek_family::config_3,
                                          &deepseek_family::place, deepseek_family::kHeads3};

}  // namespace longspan
