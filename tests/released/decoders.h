// Sizes of released models, written from the structure of the reference classes; nothing here knows
// the library. Decoders: those with LayerNorm, those with RMSNorm.
#pragma once

#include "tests/released/config.h"

namespace released {

// Decoders with LayerNorm.

// Heads shared by the decoders: a tied or free vocabulary matrix, or a score for a sequence.
inline u64 decoder_head(const json& c, u64 d, bool usually_tied, bool bias = false) {
  const std::string head = head_of(c);
  const u64 words = (tied(c, usually_tied) ? 0 : d * vocab(c)) + (bias ? vocab(c) : 0);
  if (head == "Model" || head == "TextModel") return 0;
  if (head == "ForCausalLM" || head == "LMHeadModel" || head == "WithLMHead") return words;
  if (head == "ForSequenceClassification") return linear(d, labels(c), false);
  if (head == "ForTokenClassification") return linear(d, labels(c));
  if (head == "DoubleHeadsModel") return words + linear(d, 1);  // summary of one choice
  unknown_head(c);
}

// openai-gpt (LayerNorm after each branch, none at the end) and GPT-2 (one at the end).
inline u64 gpt_parameters(const json& c) {
  const u64 d = num(c, "n_embd"), f = num(c, "n_inner", 4 * d), n = num(c, "n_layer");
  const u64 positions = num(c, "n_positions", num(c, "n_ctx", 1024));
  u64 layer = linear(d, 3 * d) + linear(d, d) + linear(d, f) + linear(f, d) + 2 * layer_norm(d);
  if (flag(c, "add_cross_attention", false))
    layer += linear(d, 2 * d) + 2 * linear(d, d) + layer_norm(d);
  const u64 last = model_type(c) == "gpt2" ? layer_norm(d) : 0;
  return (vocab(c) + positions) * d + n * layer + last + decoder_head(c, d, true);
}

// GPTBigCode: GPT-2 with one key and value head (multi_query).
inline u64 gpt_bigcode_parameters(const json& c) {
  const u64 d = num(c, "n_embd"), f = num(c, "n_inner", 4 * d), head = d / num(c, "n_head");
  const u64 kv = flag(c, "multi_query", true) ? head : d;
  const u64 layer =
      linear(d, d + 2 * kv) + linear(d, d) + linear(d, f) + linear(f, d) + 2 * layer_norm(d);
  return (vocab(c) + num(c, "n_positions")) * d + num(c, "n_layer") * layer + layer_norm(d) +
         decoder_head(c, d, true);
}

// GPT-Neo: q, k and v have no bias, the rest has.
inline u64 gpt_neo_parameters(const json& c) {
  const u64 d = hidden(c), f = num(c, "intermediate_size", 4 * d);
  const u64 layer = 3 * d * d + linear(d, d) + linear(d, f) + linear(f, d) + 2 * layer_norm(d);
  return (vocab(c) + num(c, "max_position_embeddings", 2048)) * d + num(c, "num_layers") * layer +
         layer_norm(d) + decoder_head(c, d, true);
}

// GPT-J and CodeGen: attention without bias beside the feed-forward, one norm; a free head with a
// bias.
inline u64 gptj_parameters(const json& c) {
  const u64 d = num(c, "n_embd"), f = num(c, "n_inner", 4 * d);
  const u64 layer = 4 * d * d + linear(d, f) + linear(f, d) + layer_norm(d);
  return vocab(c) * d + num(c, "n_layer") * layer + layer_norm(d) + decoder_head(c, d, false, true);
}

inline u64 gpt_neox_parameters(const json& c) {
  const u64 d = hidden(c), f = ffn(c);
  const bool bias = flag(c, "attention_bias", true);
  const u64 layer =
      linear(d, 3 * d, bias) + linear(d, d, bias) + linear(d, f) + linear(f, d) + 2 * layer_norm(d);
  return vocab(c) * d + layers_of(c) * layer + layer_norm(d) + decoder_head(c, d, false);
}

// OPT: two rows more of positions; 350m norms after its branches, has no last norm, and projects
// from and to narrower embeddings.
inline u64 opt_parameters(const json& c) {
  const u64 d = hidden(c), f = num(c, "ffn_dim"), e = num(c, "word_embed_proj_dim", d);
  const bool bias = flag(c, "enable_bias", true);
  const u64 norm = flag(c, "layer_norm_elementwise_affine", true) ? layer_norm(d) : 0;
  const u64 layer = 4 * linear(d, d, bias) + linear(d, f, bias) + linear(f, d, bias) + 2 * norm;
  const bool last =
      flag(c, "do_layer_norm_before", true) && !flag(c, "_remove_final_layer_norm", false);
  return vocab(c) * e + (num(c, "max_position_embeddings", 2048) + 2) * d +
         (e == d ? 0 : 2 * e * d) + layers_of(c) * layer + (last ? norm : 0) +
         decoder_head(c, e, true);
}

inline u64 bloom_width(const json& c) { return has(c, "n_embed") ? num(c, "n_embed") : hidden(c); }
inline u64 bloom_depth(const json& c) {
  return has(c, "n_layer") ? num(c, "n_layer") : layers_of(c);
}
inline u64 bloom_heads(const json& c) {
  return has(c, "n_head") ? num(c, "n_head") : num(c, "num_attention_heads");
}
inline u64 bloom_parameters(const json& c) {
  const u64 d = bloom_width(c);
  const u64 layer =
      linear(d, 3 * d) + linear(d, d) + linear(d, 4 * d) + linear(4 * d, d) + 2 * layer_norm(d);
  return vocab(c) * d + layer_norm(d) + bloom_depth(c) * layer + layer_norm(d) +
         decoder_head(c, d, true);
}

inline u64 falcon_kv_heads(const json& c) {
  const u64 heads = num(c, "num_attention_heads", num(c, "n_head", 71));
  if (flag(c, "new_decoder_architecture", false))
    return num(c, "num_kv_heads", num(c, "n_head_kv", heads));
  return flag(c, "multi_query", true) ? 1 : heads;
}
inline u64 falcon_heads(const json& c) {
  return num(c, "num_attention_heads", num(c, "n_head", 71));
}
inline u64 falcon_depth(const json& c) {
  return num(c, "num_hidden_layers", num(c, "n_layer", 32));
}
// Falcon: 7b one norm before both branches; 40b and 180b one per branch; rw two in sequence.
inline u64 falcon_parameters(const json& c) {
  const u64 d = hidden(c), f = num(c, "ffn_hidden_size", 4 * d), head = d / falcon_heads(c);
  const bool bias = flag(c, "bias", false), parallel = flag(c, "parallel_attn", true);
  const bool fresh = flag(c, "new_decoder_architecture", false);
  u64 norms = parallel ? 1 : 2;
  if (fresh) norms = num(c, "num_ln_in_parallel_attn", 2) == 2 ? 2 : (parallel ? 1 : 2);
  const u64 layer = linear(d, d + 2 * falcon_kv_heads(c) * head, bias) + linear(d, d, bias) +
                    linear(d, f, bias) + linear(f, d, bias) + norms * layer_norm(d);
  return vocab(c) * d + falcon_depth(c) * layer + layer_norm(d) + decoder_head(c, d, true);
}

// MPT: no biases at all, norms with a scale only.
inline u64 mpt_parameters(const json& c) {
  const u64 d = num(c, "d_model"), f = num(c, "expansion_ratio", 4) * d;
  const u64 layer = 3 * d * d + d * d + 2 * d * f + 2 * d;
  return vocab(c) * d + num(c, "n_layers") * layer + d + decoder_head(c, d, true);
}

// CTRL: sinusoid positions are no parameter; the tied head has a bias.
inline u64 ctrl_parameters(const json& c) {
  const u64 d = num(c, "n_embd"), f = num(c, "dff");
  return vocab(c) * d + num(c, "n_layer") * encoder_layer(d, f) + layer_norm(d) +
         decoder_head(c, d, true, true);
}

// BioGPT: two rows more of positions. XGLM: its sinusoid table is a buffer.
inline u64 biogpt_parameters(const json& c) {
  const u64 d = hidden(c);
  return (vocab(c) + num(c, "max_position_embeddings", 1024) + 2) * d +
         layers_of(c) * encoder_layer(d, ffn(c)) + layer_norm(d) + decoder_head(c, d, true);
}
inline u64 xglm_parameters(const json& c) {
  const u64 d = num(c, "d_model");
  return vocab(c) * d + num(c, "num_layers") * encoder_layer(d, num(c, "ffn_dim")) + layer_norm(d) +
         decoder_head(c, d, true);
}

// Where a file leaves out head_dim or num_key_value_heads, the default of its class holds; null is
// width / heads and all heads.
inline u64 class_default(const json& c,
                         std::initializer_list<std::pair<std::string_view, u64>> defaults,
                         u64 otherwise) {
  const std::string type = model_type(c);
  for (const auto& [name, value] : defaults)
    if (type == name) return value;
  return otherwise;
}
inline u64 head_size(const json& c) {
  const u64 split = hidden(c) / num(c, "num_attention_heads");
  if (c.contains("head_dim")) return num(c, "head_dim", split);
  return class_default(c,
                       {{"gemma", 256},
                        {"gemma2", 256},
                        {"gemma3_text", 256},
                        {"qwen3", 128},
                        {"qwen3_next", 256},
                        {"glm", 128},
                        {"gpt_oss", 64}},
                       split);
}
inline u64 query_width(const json& c) { return num(c, "num_attention_heads") * head_size(c); }
inline u64 kv_heads(const json& c) {
  const u64 heads = num(c, "num_attention_heads");
  if (c.contains("num_key_value_heads")) return num(c, "num_key_value_heads", heads);
  return class_default(c,
                       {{"mistral", 8},
                        {"mixtral", 8},
                        {"phimoe", 8},
                        {"gpt_oss", 8},
                        {"qwen2", 32},
                        {"qwen3", 32},
                        {"stablelm", 32},
                        {"gemma", 16},
                        {"qwen2_moe", 16},
                        {"gemma2", 4},
                        {"gemma3_text", 4},
                        {"qwen3_moe", 4},
                        {"starcoder2", 2},
                        {"qwen3_next", 2},
                        {"glm", 2}},
                       heads);
}
inline u64 kv_width(const json& c) { return kv_heads(c) * head_size(c); }

inline u64 starcoder2_parameters(const json& c) {
  const u64 d = hidden(c), f = ffn(c), q = query_width(c), kv = kv_width(c);
  const bool bias = flag(c, "use_bias", true);
  const u64 layer = linear(d, q, bias) + 2 * linear(d, kv, bias) + linear(q, d, bias) +
                    linear(d, f, bias) + linear(f, d, bias) + 2 * layer_norm(d);
  return vocab(c) * d + layers_of(c) * layer + layer_norm(d) + decoder_head(c, d, true);
}

// StableLM: LayerNorms around Llama's matrices; 12b norms each head of q and k (scale only) and
// runs its branches side by side, behind one norm.
inline u64 stablelm_parameters(const json& c) {
  const u64 d = hidden(c), f = ffn(c), q = query_width(c), kv = kv_width(c);
  const bool bias = flag(c, "use_qkv_bias", false);
  u64 layer = linear(d, q, bias) + 2 * linear(d, kv, bias) + q * d + 3 * d * f + layer_norm(d);
  if (flag(c, "qk_layernorm", false)) layer += q + kv;
  if (!flag(c, "use_parallel_residual", false)) layer += layer_norm(d);
  return vocab(c) * d + layers_of(c) * layer + layer_norm(d) + decoder_head(c, d, false);
}

// Phi-1, 1.5 and 2: biases everywhere, the head's too; one norm before both branches.
inline u64 phi_parameters(const json& c) {
  const u64 d = hidden(c), f = ffn(c), q = query_width(c), kv = kv_width(c);
  u64 layer =
      linear(d, q) + 2 * linear(d, kv) + linear(q, d) + linear(d, f) + linear(f, d) + layer_norm(d);
  if (flag(c, "qk_layernorm", false)) layer += 2 * layer_norm(head_size(c));
  return vocab(c) * d + layers_of(c) * layer + layer_norm(d) + decoder_head(c, d, false, true);
}

// Decoders with RMSNorm.

// Attention of grouped queries: biases of q, k, v and of o.
inline u64 grouped_attention(const json& c, bool qkv_bias, bool out_bias) {
  const u64 d = hidden(c), q = query_width(c), kv = kv_width(c);
  return linear(d, q, qkv_bias) + 2 * linear(d, kv, qkv_bias) + linear(q, d, out_bias);
}
inline u64 gated_ffn(u64 d, u64 f, bool bias = false) {
  return 2 * linear(d, f, bias) + linear(f, d, bias);
}
// Embedding, layers of one size, last norm, head.
inline u64 rms_decoder(const json& c, u64 layer, bool usually_tied) {
  const u64 d = hidden(c);
  return vocab(c) * d + layers_of(c) * layer + rms_norm(d) + decoder_head(c, d, usually_tied);
}

inline u64 llama_parameters(const json& c) {  // SmolLM3, Granite and Mistral too
  const bool bias = flag(c, "attention_bias", false);
  const u64 d = hidden(c);
  return rms_decoder(c,
                     grouped_attention(c, bias, bias) +
                         gated_ffn(d, ffn(c), flag(c, "mlp_bias", false)) + 2 * rms_norm(d),
                     model_type(c) == "smollm3");
}
inline u64 mistral_parameters(const json& c) {
  const u64 d = hidden(c);
  return rms_decoder(c, grouped_attention(c, false, false) + gated_ffn(d, ffn(c)) + 2 * rms_norm(d),
                     false);
}
inline u64 mixtral_parameters(const json& c) {
  const u64 d = hidden(c), e = num(c, "num_local_experts", 8);
  return rms_decoder(
      c, grouped_attention(c, false, false) + d * e + e * gated_ffn(d, ffn(c)) + 2 * rms_norm(d),
      false);
}
inline u64 qwen2_parameters(const json& c) {  // q, k and v always have biases, o never
  const u64 d = hidden(c);
  return rms_decoder(c, grouped_attention(c, true, false) + gated_ffn(d, ffn(c)) + 2 * rms_norm(d),
                     false);
}
inline u64 qwen3_attention(const json& c) {  // a norm of the head's size for q and for k
  const bool bias = flag(c, "attention_bias", false);
  return grouped_attention(c, bias, bias) + 2 * rms_norm(head_size(c));
}
inline u64 qwen3_parameters(const json& c) {
  const u64 d = hidden(c);
  return rms_decoder(c, qwen3_attention(c) + gated_ffn(d, ffn(c)) + 2 * rms_norm(d), false);
}

inline bool qwen_sparse_layer(const json& c, u64 i) {
  if (has(c, "mlp_only_layers"))
    for (const json& only : c.at("mlp_only_layers"))
      if (only.get<u64>() == i) return false;
  return num(c, "num_experts") > 0 && (i + 1) % num(c, "decoder_sparse_step", 1) == 0;
}
inline u64 qwen_sparse_layers(const json& c) {
  u64 count = 0;
  for (u64 i = 0; i < layers_of(c); ++i) count += qwen_sparse_layer(c, i);
  return count;
}
// Feed-forwards of all layers: experts behind a router, and the shared expert with its gate.
inline u64 qwen_feed_forwards(const json& c, bool shared) {
  const u64 d = hidden(c), e = num(c, "num_experts"), sparse = qwen_sparse_layers(c);
  u64 block = d * e + e * gated_ffn(d, num(c, "moe_intermediate_size"));
  if (shared) block += gated_ffn(d, num(c, "shared_expert_intermediate_size")) + d;
  return sparse * block + (layers_of(c) - sparse) * gated_ffn(d, ffn(c));
}
inline u64 qwen2_moe_parameters(const json& c) {
  return rms_decoder(
             c, grouped_attention(c, flag(c, "qkv_bias", true), false) + 2 * rms_norm(hidden(c)),
             false) +
         qwen_feed_forwards(c, true);
}
inline u64 qwen3_moe_parameters(const json& c) {
  return rms_decoder(c, qwen3_attention(c) + 2 * rms_norm(hidden(c)), false) +
         qwen_feed_forwards(c, false);
}

inline bool qwen3_next_full(const json& c, u64 i) {
  if (has(c, "layer_types"))
    return c.at("layer_types").at(i).get<std::string>() == "full_attention";
  return (i + 1) % num(c, "full_attention_interval", 4) == 0;
}
inline u64 qwen3_next_full_layers(const json& c) {
  u64 count = 0;
  for (u64 i = 0; i < layers_of(c); ++i) count += qwen3_next_full(c, i);
  return count;
}
// Matrices of a gated delta layer: q, k, v and z; beta and alpha; the output.
inline u64 delta_matrices(const json& c) {
  const u64 d = hidden(c), hv = num(c, "linear_num_value_heads");
  const u64 k = num(c, "linear_num_key_heads") * num(c, "linear_key_head_dim");
  const u64 v = hv * num(c, "linear_value_head_dim");
  return d * (2 * k + 2 * v) + d * 2 * hv + v * d;
}
// Qwen3-Next: gated attention (q is twice as wide) in one layer of four, gated delta nets in the
// others. The layer of multi-token prediction is not part of the class.
inline u64 qwen3_next_parameters(const json& c) {
  const u64 d = hidden(c), q = query_width(c), kv = kv_width(c), n = layers_of(c);
  const bool bias = flag(c, "attention_bias", false);
  const u64 attention = linear(d, 2 * q, bias) + 2 * linear(d, kv, bias) + linear(q, d, bias) +
                        2 * rms_norm(head_size(c));
  const u64 hv = num(c, "linear_num_value_heads"), dv = num(c, "linear_value_head_dim");
  const u64 k = num(c, "linear_num_key_heads") * num(c, "linear_key_head_dim");
  const u64 delta = delta_matrices(c) + num(c, "linear_conv_kernel_dim", 4) * (2 * k + hv * dv) +
                    2 * hv + rms_norm(dv);  // convolution; dt_bias and A_log; gated norm
  const u64 full = qwen3_next_full_layers(c);
  return rms_decoder(c, 2 * rms_norm(d), false) + full * attention + (n - full) * delta +
         qwen_feed_forwards(c, true);
}

// Gemma: tied; from Gemma 2 a norm before and after each branch; from Gemma 3 norms of q and k.
inline u64 gemma_parameters(const json& c) {
  const std::string type = model_type(c);
  const u64 d = hidden(c), norms = type == "gemma" ? 2 : 4;
  const bool bias = flag(c, "attention_bias", false);
  u64 layer = grouped_attention(c, bias, bias) + gated_ffn(d, ffn(c)) + norms * rms_norm(d);
  if (type == "gemma3_text") layer += 2 * rms_norm(head_size(c));
  return rms_decoder(c, layer, true);
}

// OLMo: norms without parameters. OLMo 2 and 3: norms after the branches, and of all q and k.
inline u64 olmo_parameters(const json& c) {
  const bool bias = flag(c, "attention_bias", false);
  const u64 d = hidden(c), layer = grouped_attention(c, bias, bias) + gated_ffn(d, ffn(c));
  return vocab(c) * d + layers_of(c) * layer + decoder_head(c, d, false);
}
inline u64 olmo2_parameters(const json& c) {
  const bool bias = flag(c, "attention_bias", false);
  const u64 d = hidden(c);
  return rms_decoder(c,
                     grouped_attention(c, bias, bias) + query_width(c) + kv_width(c) +
                         gated_ffn(d, ffn(c)) + 2 * rms_norm(d),
                     false);
}
inline u64 olmoe_parameters(const json& c) {  // OLMo 2's norms of q and k, all layers experts
  const bool bias = flag(c, "attention_bias", false);
  const u64 d = hidden(c), e = num(c, "num_experts", 64);
  return rms_decoder(c,
                     grouped_attention(c, bias, bias) + query_width(c) + kv_width(c) + d * e +
                         e * gated_ffn(d, ffn(c)) + 2 * rms_norm(d),
                     false);
}

// Phi-3 and Phi-4: q, k and v in one matrix, gate and up in one; no biases.
inline u64 phi3_parameters(const json& c) { return mistral_parameters(c); }
// Phi-3.5-MoE: LayerNorms, biases in attention and head.
inline u64 phimoe_parameters(const json& c) {
  const u64 d = hidden(c), e = num(c, "num_local_experts", 16);
  const bool bias = flag(c, "attention_bias", false);
  const u64 layer =
      grouped_attention(c, bias, bias) + d * e + e * gated_ffn(d, ffn(c)) + 2 * layer_norm(d);
  return vocab(c) * d + layers_of(c) * layer + layer_norm(d) +
         decoder_head(c, d, false, flag(c, "lm_head_bias", false));
}

// Cohere: one norm (scale only) before both branches; R+ norms each head of q and k; tied.
inline u64 cohere_parameters(const json& c) {
  const u64 d = hidden(c);
  const bool bias = flag(c, "attention_bias", false);
  u64 layer = grouped_attention(c, bias, bias) + gated_ffn(d, ffn(c)) + d;
  if (model_type(c) == "cohere" && flag(c, "use_qk_norm", false))
    layer += query_width(c) + kv_width(c);
  return rms_decoder(c, layer, true);
}
// GLM-4-9b: q, k and v with biases; gate and up in one matrix.
inline u64 glm_parameters(const json& c) {
  const u64 d = hidden(c);
  return rms_decoder(c,
                     grouped_attention(c, flag(c, "attention_bias", false), false) +
                         gated_ffn(d, ffn(c)) + 2 * rms_norm(d),
                     false);
}

// gpt-oss: biases in attention, router and experts; one sink per head.
inline u64 gpt_oss_parameters(const json& c) {
  const u64 d = hidden(c), f = ffn(c), e = num(c, "num_local_experts");
  const bool bias = flag(c, "attention_bias", true);
  const u64 expert = linear(d, 2 * f) + linear(f, d);
  return rms_decoder(c,
                     grouped_attention(c, bias, bias) + num(c, "num_attention_heads") +
                         linear(d, e) + e * expert + 2 * rms_norm(d),
                     false);
}

// DeepSeek V2 and V3: latent attention. The first layers are dense; the others have routed and
// shared experts. The layer of multi-token prediction is not part of the class.
inline u64 deepseek_attention_matrices(const json& c) {
  const u64 d = hidden(c), h = num(c, "num_attention_heads"), r = num(c, "kv_lora_rank");
  const u64 rope = num(c, "qk_rope_head_dim"), nope = num(c, "qk_nope_head_dim");
  const u64 v = num(c, "v_head_dim"), q = num(c, "q_lora_rank", 0);
  const u64 query = q == 0 ? d * h * (nope + rope) : d * q + q * h * (nope + rope);
  return query + d * (r + rope) + r * h * (nope + v) + h * v * d;
}
inline u64 deepseek_dense_layers(const json& c) {
  return std::min(num(c, "first_k_dense_replace", 0), layers_of(c));
}
inline u64 deepseek_parameters(const json& c) {
  const u64 d = hidden(c), q = num(c, "q_lora_rank", 0), r = num(c, "kv_lora_rank");
  u64 attention = deepseek_attention_matrices(c) + q + r;  // the norms of the latents
  if (flag(c, "attention_bias", false))
    attention += (q > 0 ? q : 0) + r + num(c, "qk_rope_head_dim") + d;
  const u64 e = num(c, "n_routed_experts"), m = num(c, "moe_intermediate_size");
  const u64 experts = d * e + e * gated_ffn(d, m) + gated_ffn(d, num(c, "n_shared_experts", 0) * m);
  const u64 dense = deepseek_dense_layers(c);
  return rms_decoder(c, attention + 2 * rms_norm(d), false) + dense * gated_ffn(d, ffn(c)) +
         (layers_of(c) - dense) * experts;
}
// V3's correction of the routing scores: a buffer of the library's class; nn.Parameter in the code
// that came with the checkpoint, which therefore counts this many more.
inline u64 deepseek_v3_correction(const json& c) {
  return (layers_of(c) - deepseek_dense_layers(c)) * num(c, "n_routed_experts");
}

}  // namespace released
