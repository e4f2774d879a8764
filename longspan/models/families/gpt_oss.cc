// gpt-oss (OpenAI, 2025, arXiv:2508.10925): a learned sink in every head, windows in every other layer,
// biases everywhere, and experts with a clamped gate.
#include <fmt/format.h>

#include "longspan/models/families/llama_like.h"

namespace longspan {

namespace gpt_oss_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  ModelConfig c =
      llama_sizes(f, {.kv_heads = 8, .length = 131072, .epsilon = 1e-5, .head_width = 64});
  f.refuse(c.activation != Activation::kSilu, "another activation than SiLU");
  f.refuse(f.exact_number("swiglu_limit", 7.0) != 7.0, "gates that are clamped elsewhere");
  c.activation = Activation::kClamped;
  c.tied = f.flag("tie_word_embeddings", false);
  set_rotary(f, {.base = 150000.0}, c);
  if (f.absent("rope_scaling") && f.absent("rope_parameters")) {
    c.rotary = "scaling=yarn,factor=32,original=4096,fast=32,slow=1,truncate=false";
  }
  f.refuse(f.exact_number("swiglu_alpha", 1.702) != 1.702, "another slope of its gates");
  const bool bias = f.flag("attention_bias", true);
  set_biases({.projections = bias, .output = bias, .feed_forward = true}, c);
  c.attention = attention_of(sliding_layers(f, c.layers, [](std::size_t i) { return i % 2 == 0; }),
                             "sinks=true", f.size("sliding_window", 128));
  const std::size_t top =
      f.has("num_experts_per_tok") ? f.size("num_experts_per_tok") : f.size("experts_per_token", 4);
  f.pass_over({"experts_per_token", "router_aux_loss_coef", "initial_context_length",
               "output_router_logits", "num_experts"});
  f.refuse(f.flag("output_router_logits", false), "a loss of the router");
  c.feed_forward = fmt::format(
      "experts:experts={},top={},width={},router_bias=true,normalize=true,normalize_one=true,"
      "capacity=0,padding=true,balance=0",
      f.size("num_local_experts", f.size("num_experts", 128)), top, c.d_ff);
  return c;
}

void place_attention(Placer& p, std::size_t i) {
  place_llama_attention(p, i);
  p.whole(p.source_layer("layers", i) + ".self_attn.sinks", p.layer(i) + ".attention.sinks");
}

// One tensor for all experts: [experts, inputs, outputs], of the first matrix gate and up in turn.
void place_experts(Placer& p, std::size_t i) {
  const auto [experts, width, shared, correction] = p.expert_sizes();
  const std::size_t d = p.config().d_model;
  const std::string from = p.source_layer("layers", i) + ".mlp.experts.";
  const auto ours = [&](std::size_t e, const char* part) {
    return fmt::format("{}.feed_forward.expert.{}.{}", p.layer(i), e, part);
  };
  for (std::size_t half = 0; half < 2; ++half) {
    for (std::size_t e = 0; e < experts; ++e) {
      p.slice(from + "gate_up_proj", ours(e, "in.weight"), half * width, width,
              {.shape = {experts, d, 2 * width},
               .first = e * d * 2 * width + half,
               .row_step = 2,
               .column_step = 2 * width});
    }
    for (std::size_t e = 0; e < experts; ++e) {
      p.slice(from + "gate_up_proj_bias", ours(e, "in.bias"), half * width, width,
              {.shape = {experts, 2 * width}, .first = e * 2 * width + half, .row_step = 2});
    }
  }
  for (std::size_t e = 0; e < experts; ++e) {
    p.slice(
        from + "down_proj", ours(e, "out.weight"), 0, 0,
        {.shape = {experts, width, d}, .first = e * width * d, .row_step = 1, .column_step = d});
  }
  for (std::size_t e = 0; e < experts; ++e) {
    p.slice(from + "down_proj_bias", ours(e, "out.bias"), 0, 0,
            {.shape = {experts, d}, .first = e * d, .row_step = 1});
  }
  p.both(p.source_layer("layers", i) + ".mlp.router", p.layer(i) + ".feed_forward.router");
}

void place(Placer& p) {
  place_llama_ends(p);
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = p.source_layer("layers", i);
    p.norm(from + ".input_layernorm", p.layer(i) + ".attention_norm");
    place_attention(p, i);
    p.norm(from + ".post_attention_layernorm", p.layer(i) + ".feed_forward_norm");
    place_experts(p, i);
  }
}

constexpr CheckpointHead kHeads[] = {
    {"GptOssForCausalLM", &heads::causal, &heads::place_causal},
    {"GptOssModel", &heads::bare, &heads::nothing},
};

}  // namespace

}  // namespace gpt_oss_family

extern const CheckpointFamily kGptOss{"gpt_oss", "model", &gpt_oss_family::config,
                                      &gpt_oss_family::place, gpt_oss_family::kHeads};

}  // namespace longspan
