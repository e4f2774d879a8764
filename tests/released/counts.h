// Sizes of released models, written from the structure of the reference classes; nothing here knows
// the library. Parameters by model_type, what decoding keeps, what a token uses.
//
//   released_parameters(config)        sum of numel() over parameters(), tied tensors once
//   fixed_table_parameters(config)     those of them that are never trained: sinusoid tables that
//                                      are nn.Embedding (or nn.Parameter) with requires_grad false
//   cache_elements_per_token(config)   keys and values kept per token, all layers, windows ignored
//   active_parameters(config)          all parameters minus the routed experts a token does not use
//   gemm_maccs(config, n)              matrix products of one forward of n tokens, batch 1
//
// Buffers are no parameters: position_ids, rotary inv_freq, attention masks, final_logits_bias,
// the tables of M2M100 and XGLM, the e_score_correction_bias of DeepSeek V3.
#pragma once

#include "tests/released/decoders.h"
#include "tests/released/encoders.h"
#include "tests/released/others.h"
#include "tests/released/translators.h"

namespace released {

// By model_type.

inline u64 released_parameters(const json& c) {
  const std::string t = model_type(c);
  if (t == "bert") return bert_parameters(c);
  if (is_one_of(t, {"roberta", "xlm-roberta", "camembert"})) return roberta_parameters(c);
  if (t == "albert") return albert_parameters(c);
  if (t == "electra") return electra_parameters(c);
  if (t == "mpnet") return mpnet_parameters(c);
  if (t == "distilbert") return distilbert_parameters(c);
  if (t == "modernbert") return modernbert_parameters(c);
  if (t == "deberta") return deberta_parameters(c);
  if (t == "deberta-v2") return deberta_v2_parameters(c);
  if (t == "big_bird") return big_bird_parameters(c);
  if (t == "longformer") return longformer_parameters(c);
  if (t == "nystromformer") return nystromformer_parameters(c);
  if (t == "yoso") return yoso_parameters(c);
  if (t == "fnet") return fnet_parameters(c);
  if (t == "funnel") return funnel_parameters(c);
  if (t == "roformer") return roformer_parameters(c);
  if (t == "xlnet") return xlnet_parameters(c);
  if (t == "transfo-xl") return transfo_xl_parameters(c);
  if (t == "reformer") return reformer_parameters(c);
  if (is_one_of(t, {"t5", "mt5", "umt5", "longt5"})) return t5_parameters(c);
  if (t == "switch_transformers") return switch_parameters(c);
  if (is_one_of(t, {"bart", "mbart", "marian", "pegasus", "m2m_100", "blenderbot",
                    "blenderbot-small", "bigbird_pegasus", "pegasus_x", "led"}))
    return bart_parameters(c);
  if (t == "whisper") return whisper_parameters(c);
  if (t == "openai-gpt" || t == "gpt2") return gpt_parameters(c);
  if (t == "gpt_bigcode") return gpt_bigcode_parameters(c);
  if (t == "gpt_neo") return gpt_neo_parameters(c);
  if (t == "gptj" || t == "codegen") return gptj_parameters(c);
  if (t == "gpt_neox") return gpt_neox_parameters(c);
  if (t == "opt") return opt_parameters(c);
  if (t == "bloom") return bloom_parameters(c);
  if (t == "falcon") return falcon_parameters(c);
  if (t == "mpt") return mpt_parameters(c);
  if (t == "ctrl") return ctrl_parameters(c);
  if (t == "biogpt") return biogpt_parameters(c);
  if (t == "xglm") return xglm_parameters(c);
  if (t == "starcoder2") return starcoder2_parameters(c);
  if (t == "stablelm") return stablelm_parameters(c);
  if (t == "phi") return phi_parameters(c);
  if (is_one_of(t, {"llama", "smollm3", "granite"})) return llama_parameters(c);
  if (t == "mistral") return mistral_parameters(c);
  if (t == "mixtral") return mixtral_parameters(c);
  if (t == "qwen2") return qwen2_parameters(c);
  if (t == "qwen2_moe") return qwen2_moe_parameters(c);
  if (t == "qwen3") return qwen3_parameters(c);
  if (t == "qwen3_moe") return qwen3_moe_parameters(c);
  if (t == "qwen3_next") return qwen3_next_parameters(c);
  if (is_one_of(t, {"gemma", "gemma2", "gemma3_text"})) return gemma_parameters(c);
  if (t == "olmo") return olmo_parameters(c);
  if (t == "olmo2" || t == "olmo3") return olmo2_parameters(c);
  if (t == "olmoe") return olmoe_parameters(c);
  if (t == "phi3") return phi3_parameters(c);
  if (t == "phimoe") return phimoe_parameters(c);
  if (t == "cohere" || t == "cohere2") return cohere_parameters(c);
  if (t == "glm") return glm_parameters(c);
  if (t == "gpt_oss") return gpt_oss_parameters(c);
  if (t == "deepseek_v2" || t == "deepseek_v3") return deepseek_parameters(c);
  if (t == "mamba" || t == "falcon_mamba") return mamba_parameters(c);
  if (t == "mamba2") return mamba2_parameters(c);
  if (t == "rwkv") return rwkv_parameters(c);
  if (is_one_of(t, {"vit", "deit"})) return vit_parameters(c);
  if (t == "dinov2") return dinov2_parameters(c);
  if (is_one_of(t, {"clip", "clip_text_model", "clip_vision_model"})) return clip_parameters(c);
  if (t == "perceiver") return perceiver_parameters(c);
  throw std::invalid_argument("[released] no formula for model_type " + t);
}

// Elements of released_parameters that have no gradient in the reference.
inline u64 fixed_table_parameters(const json& c) {
  const std::string t = model_type(c);
  if (t == "marian" || t == "pegasus")
    return 2 * num(c, "max_position_embeddings") * num(c, "d_model");
  if (t == "roformer") return roformer_table(c);
  if (t == "whisper") return num(c, "max_source_positions", 1500) * num(c, "d_model");
  if (t == "distilbert" && flag(c, "sinusoidal_pos_embds", false))
    return num(c, "max_position_embeddings", 512) * num(c, "dim", 768);
  return 0;
}

// Keys and values kept per token.

// Elements over all layers that attend to their past, as if every layer kept all its past (see
// layer_window for those that need not). Encoder–decoder models: the decoder's own past; its
// cross attention keeps as much again per token of the source. 0 for encoders and recurrences.
inline u64 cache_elements_per_token(const json& c) {
  const std::string t = model_type(c);
  if (is_one_of(t, {"openai-gpt", "gpt2", "gptj", "codegen", "ctrl"}))
    return 2 * num(c, "n_layer") * num(c, "n_embd");
  if (t == "gpt_bigcode") {
    const u64 d = num(c, "n_embd"), head = d / num(c, "n_head");
    return 2 * num(c, "n_layer") * (flag(c, "multi_query", true) ? head : d);
  }
  if (t == "gpt_neo") return 2 * num(c, "num_layers") * hidden(c);
  if (is_one_of(t, {"gpt_neox", "opt", "biogpt"})) return 2 * layers_of(c) * hidden(c);
  if (t == "xglm") return 2 * num(c, "num_layers") * num(c, "d_model");
  if (t == "mpt") return 2 * num(c, "n_layers") * num(c, "d_model");
  if (t == "bloom") return 2 * bloom_depth(c) * bloom_width(c);
  if (t == "falcon")
    return 2 * falcon_depth(c) * falcon_kv_heads(c) * (hidden(c) / falcon_heads(c));
  if (t == "deepseek_v2" || t == "deepseek_v3")  // the latent and the rotated part of the key
    return layers_of(c) * (num(c, "kv_lora_rank") + num(c, "qk_rope_head_dim"));
  if (t == "qwen3_next") return 2 * qwen3_next_full_layers(c) * kv_width(c);
  if (is_one_of(t, {"t5", "mt5", "umt5", "longt5", "switch_transformers"}))
    return 2 * num(c, "num_decoder_layers", num(c, "num_layers")) * num(c, "num_heads") *
           num(c, "d_kv");
  if (is_one_of(t, {"bart", "mbart", "marian", "pegasus", "m2m_100", "blenderbot", "whisper",
                    "blenderbot-small", "bigbird_pegasus", "pegasus_x", "led"}))
    return 2 * num(c, "decoder_layers") * num(c, "d_model");
  if (is_one_of(
          t, {"llama", "smollm3",   "granite",    "mistral", "mixtral",     "qwen2",  "qwen2_moe",
              "qwen3", "qwen3_moe", "gemma",      "gemma2",  "gemma3_text", "olmo",   "olmo2",
              "olmo3", "olmoe",     "phi",        "phi3",    "phimoe",      "cohere", "cohere2",
              "glm",   "gpt_oss",   "starcoder2", "stablelm"}))
    return 2 * layers_of(c) * kv_width(c);
  return 0;
}

// How many positions layer i may look at, its own included; 0: all before it.
inline u64 layer_window(const json& c, u64 i) {
  const std::string t = model_type(c);
  const u64 window = num(c, "sliding_window", 0);
  if (t == "gpt_neo") {  // [[["global", "local"], 12]]
    if (!has(c, "attention_types")) return i % 2 == 1 ? num(c, "window_size", 256) : 0;
    std::vector<std::string> kinds;
    for (const json& group : c.at("attention_types"))
      for (u64 k = 0; k < group.at(1).get<u64>(); ++k)
        for (const json& kind : group.at(0)) kinds.push_back(kind.get<std::string>());
    return kinds.at(i) == "local" ? num(c, "window_size", 256) : 0;
  }
  if (has(c, "layer_types") && t != "qwen3_next")
    return c.at("layer_types").at(i).get<std::string>() == "sliding_attention" ? window : 0;
  if (is_one_of(t, {"mistral", "mixtral", "starcoder2", "phi3", "phimoe"})) return window;
  if (is_one_of(t, {"qwen2", "qwen3", "qwen2_moe", "qwen3_moe"}))
    return flag(c, "use_sliding_window", false) && i >= num(c, "max_window_layers", 28) ? window
                                                                                        : 0;
  if (t == "gemma2") return i % 2 == 0 ? num(c, "sliding_window", 4096) : 0;
  if (t == "gpt_oss") return i % 2 == 0 ? num(c, "sliding_window", 128) : 0;
  if (t == "gemma3_text")
    return (i + 1) % num(c, "sliding_window_pattern", 6) != 0 ? num(c, "sliding_window", 4096) : 0;
  if (t == "cohere2")
    return (i + 1) % num(c, "sliding_window_pattern", 4) != 0 ? num(c, "sliding_window", 4096) : 0;
  if (t == "olmo3") return (i + 1) % 4 != 0 ? num(c, "sliding_window", 4096) : 0;
  return 0;
}

// Experts.

// Parameters of the routed experts that one token does not use, over all layers.
inline u64 idle_expert_parameters(const json& c) {
  const std::string t = model_type(c);
  const u64 d = has(c, "hidden_size") ? hidden(c) : 0;
  if (t == "mixtral" || t == "phimoe")
    return layers_of(c) * gated_ffn(d, ffn(c)) *
           (num(c, "num_local_experts") - num(c, "num_experts_per_tok", 2));
  if (t == "olmoe")
    return layers_of(c) * gated_ffn(d, ffn(c)) *
           (num(c, "num_experts", 64) - num(c, "num_experts_per_tok", 8));
  if (is_one_of(t, {"qwen2_moe", "qwen3_moe", "qwen3_next"}))
    return qwen_sparse_layers(c) * gated_ffn(d, num(c, "moe_intermediate_size")) *
           (num(c, "num_experts") - num(c, "num_experts_per_tok"));
  if (t == "gpt_oss")
    return layers_of(c) * (linear(d, 2 * ffn(c)) + linear(ffn(c), d)) *
           (num(c, "num_local_experts") - num(c, "num_experts_per_tok", 4));
  if (t == "deepseek_v2" || t == "deepseek_v3")
    return (layers_of(c) - deepseek_dense_layers(c)) *
           gated_ffn(d, num(c, "moe_intermediate_size")) *
           (num(c, "n_routed_experts") - num(c, "num_experts_per_tok"));
  if (t == "switch_transformers")  // one expert per token
    return switch_sparse_layers(c) * 2 * num(c, "d_model") * num(c, "d_ff") *
           (num(c, "num_experts", 8) - 1);
  return 0;
}
inline u64 active_parameters(const json& c) {
  return released_parameters(c) - idle_expert_parameters(c);
}

}  // namespace released
