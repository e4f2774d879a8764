// Mixtral (Jiang et al., 2024, arXiv:2401.04088), Qwen's mixtures (arXiv:2407.10671, arXiv:2505.09388):
// Llama whose feed-forwards are experts; a token goes to a few of them, and with Qwen 2 also to one
// that has a gate of its own.
#include <fmt/format.h>

#include <algorithm>

#include "longspan/models/families/llama_like.h"

namespace longspan {

namespace mixtral_family {

namespace {

// Of released models none is ever full, padding is routed too, and loads are kept even over all
// layers together, if at all.
struct Chosen {
  std::size_t experts;
  std::size_t top;
  std::size_t width;
  bool normalize;
};
std::string experts_of(const ConfigFields& f, const Chosen& o) {
  const double balance = f.exact_number("router_aux_loss_coef", 0.001);
  f.pass_over({"output_router_logits", "router_jitter_noise", "norm_topk_prob"});
  return fmt::format(
      "experts:experts={},top={},width={},normalize={},normalize_one={},capacity=0,padding=true,"
      "balance={},balance_of=stack",
      o.experts, o.top, o.width, o.normalize, o.normalize, balance);
}

ModelConfig mixtral(const ConfigFields& f) {
  ModelConfig c = llama_sizes(f, {.kv_heads = 8, .length = 131072, .epsilon = 1e-5});
  c.tied = f.flag("tie_word_embeddings", false);
  set_rotary(f, {.base = 1e6}, c);
  c.attention = windowed("", f.size("sliding_window", 0));
  f.refuse(f.flag("attention_bias", false), "biases in some layers");
  c.feed_forward = experts_of(f, {.experts = f.size("num_local_experts", 8),
                                  .top = f.size("num_experts_per_tok", 2),
                                  .width = c.d_ff,
                                  .normalize = true});
  return c;
}

// Which layers have experts: every few, but for those that are named.
std::string sparse_layers(const ConfigFields& f, std::size_t layers, const std::string& experts) {
  const std::size_t step = f.size("decoder_sparse_step", 1);
  std::vector<std::size_t> dense;
  if (f.has("mlp_only_layers")) dense = f.sizes("mlp_only_layers");
  std::vector<std::string> turns;
  for (std::size_t i = 0; i < layers; ++i) {
    const bool named = std::ranges::find(dense, i) != dense.end();
    turns.push_back(!named && step > 0 && (i + 1) % step == 0 ? experts : "dense");
  }
  return in_turn(turns);
}

ModelConfig qwen_body(const ConfigFields& f, std::size_t kv_heads) {
  ModelConfig c = llama_sizes(f, {.kv_heads = kv_heads, .length = 32768});
  c.tied = f.flag("tie_word_embeddings", false);
  set_rotary(f, {}, c);
  const bool slides = f.flag("use_sliding_window", false);
  const std::size_t first = f.absent("max_window_layers") ? 0 : f.size("max_window_layers", 0);
  c.attention =
      attention_of(sliding_layers(f, c.layers, [&](std::size_t i) { return slides && i >= first; }),
                   "", f.size("sliding_window", 4096));
  return c;
}

ModelConfig qwen_2(const ConfigFields& f) {
  ModelConfig c = qwen_body(f, 16);
  set_biases({.projections = f.flag("qkv_bias", true)}, c);
  const std::string experts =
      experts_of(f, {.experts = f.size("num_experts", 60),
                     .top = f.size("num_experts_per_tok", 4),
                     .width = f.size("moe_intermediate_size", 1408),
                     .normalize = f.flag("norm_topk_prob", false)}) +
      fmt::format(",shared={},shared_gate=true", f.size("shared_expert_intermediate_size", 5632));
  c.feed_forward = sparse_layers(f, c.layers, experts);
  return c;
}

ModelConfig qwen_3(const ConfigFields& f) {
  ModelConfig c = qwen_body(f, 4);
  const bool bias = f.flag("attention_bias", false);
  set_biases({.projections = bias, .output = bias}, c);
  c.query_norm = QueryNorm::kHead;
  c.feed_forward = sparse_layers(f, c.layers,
                                 experts_of(f, {.experts = f.size("num_experts", 128),
                                                .top = f.size("num_experts_per_tok", 8),
                                                .width = f.size("moe_intermediate_size", 768),
                                                .normalize = f.flag("norm_topk_prob", false)}));
  return c;
}

// Gate, up and down of every expert.
void place_experts(Placer& p, const std::string& from, const std::string& to, const char* gate,
                   const char* up, const char* down) {
  const ExpertSizes sizes = p.expert_sizes();
  for (std::size_t e = 0; e < sizes.experts; ++e) {
    const std::string theirs = fmt::format("{}.experts.{}", from, e);
    const std::string ours = fmt::format("{}.expert.{}", to, e);
    p.gated_of(theirs + gate, theirs + up, ours, sizes.width);
    p.whole(theirs + down + ".weight", ours + ".out.weight");
  }
  p.whole(from + ".gate.weight", to + ".router.weight");
}

template <class PlaceFeedForward>
void place_layers(Placer& p, PlaceFeedForward place_feed_forward) {
  place_llama_ends(p);
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = p.source_layer("layers", i);
    p.norm(from + ".input_layernorm", p.layer(i) + ".attention_norm");
    place_llama_attention(p, i);
    p.norm(from + ".post_attention_layernorm", p.layer(i) + ".feed_forward_norm");
    if (turn_of(p.config().feed_forward, i) == "dense") {
      place_llama_feed_forward(p, i);
    } else {
      place_feed_forward(from, p.layer(i) + ".feed_forward");
    }
  }
}

void place_mixtral(Placer& p) {
  place_layers(p, [&](const std::string& from, const std::string& to) {
    place_experts(p, from + ".block_sparse_moe", to, ".w1", ".w3", ".w2");
  });
}

void place_qwen(Placer& p) {
  place_layers(p, [&](const std::string& from, const std::string& to) {
    place_experts(p, from + ".mlp", to, ".gate_proj", ".up_proj", ".down_proj");
    const std::size_t shared = p.expert_sizes().shared;
    if (shared == 0) return;
    const std::string theirs = from + ".mlp.shared_expert";
    p.gated_of(theirs + ".gate_proj", theirs + ".up_proj", to + ".shared", shared);
    p.whole(theirs + ".down_proj.weight", to + ".shared.out.weight");
    p.whole(from + ".mlp.shared_expert_gate.weight", to + ".shared_gate.weight");
  });
}

constexpr CheckpointHead kMixtralHeads[] = {
    {"MixtralForCausalLM", &heads::causal, &heads::place_causal},
    {"MixtralForSequenceClassification", &heads::last_classifier, &heads::place_score},
    {"MixtralModel", &heads::bare, &heads::nothing},
};
constexpr CheckpointHead kQwen2Heads[] = {
    {"Qwen2MoeForCausalLM", &heads::causal, &heads::place_causal},
    {"Qwen2MoeForSequenceClassification", &heads::last_classifier, &heads::place_score},
    {"Qwen2MoeModel", &heads::bare, &heads::nothing},
};
constexpr CheckpointHead kQwen3Heads[] = {
    {"Qwen3MoeForCausalLM", &heads::causal, &heads::place_causal},
    {"Qwen3MoeForSequenceClassification", &heads::last_classifier, &heads::place_score},
    {"Qwen3MoeModel", &heads::bare, &heads::nothing},
};

}  // namespace

}  // namespace mixtral_family

extern const CheckpointFamily kMixtral{"mixtral", "model", &mixtral_family::mixtral,
                                       &mixtral_family::place_mixtral,
                                       mixtral_family::kMixtralHeads};
extern const CheckpointFamily kQwen2Moe{"qwen2_moe", "model", &mixtral_family::qwen_2,
                                        &mixtral_family::place_qwen, mixtral_family::kQwen2Heads};
extern const CheckpointFamily kQwen3Moe{"qwen3_moe", "model", &mixtral_family::qwen_3,
                                        &mixtral_family::place_qwen, mixtral_family::kQwen3Heads};

}  // namespace longspan
