// Sizes of released models, written from the structure of the reference classes; nothing here knows
// the library. Matrix products of a forward.
#pragma once

#include "tests/released/counts.h"

namespace released {

// Matrix products of a forward.

// Pairs of a query and a key that a causal layer scores; window 0: all before the query.
inline u64 causal_pairs(u64 n, u64 window) {
  if (window == 0 || window >= n) return n * (n + 1) / 2;
  return window * (window + 1) / 2 + (n - window) * window;
}
// The same where `side` keys on each side are seen.
inline u64 band_pairs(u64 n, u64 side) {
  u64 pairs = 0;
  for (u64 i = 0; i < n; ++i) pairs += std::min(i, side) + std::min(n - 1 - i, side) + 1;
  return pairs;
}

// One decoder layer: the weights a token is multiplied with (the chosen experts' only; a router
// is a matrix too), and what a pair costs: heads · (width of q and k + width of v).
struct LayerProducts {
  u64 weights = 0, pair = 0;
};
inline LayerProducts plain_layer(u64 d, u64 f) { return {4 * d * d + 2 * d * f, 2 * d}; }
inline LayerProducts grouped_layer(const json& c, u64 feed_forward) {
  const u64 d = hidden(c), q = query_width(c), kv = kv_width(c);
  return {2 * d * q + 2 * d * kv + feed_forward, 2 * q};
}
inline u64 expert_products(u64 d, u64 f, u64 experts, u64 chosen) {
  return d * experts + chosen * 3 * d * f;
}

struct DecoderProducts {
  u64 width = 0, layers = 0;  // of the vectors that the vocabulary sees
  LayerProducts layer = {};   // of all, or of those after `dense`
  u64 dense = 0;              // leading or irregular layers with another feed-forward
  LayerProducts dense_layer = {};
  u64 extra = 0;  // matrices beside the layers, per token
};
inline DecoderProducts decoder_products(const json& c) {
  const std::string t = model_type(c);
  if (is_one_of(t, {"openai-gpt", "gpt2", "gptj", "codegen"})) {
    const u64 d = num(c, "n_embd");
    return {d, num(c, "n_layer"), plain_layer(d, num(c, "n_inner", 4 * d))};
  }
  if (t == "ctrl")
    return {num(c, "n_embd"), num(c, "n_layer"), plain_layer(num(c, "n_embd"), num(c, "dff"))};
  if (t == "gpt_bigcode") {
    const u64 d = num(c, "n_embd"), kv = flag(c, "multi_query", true) ? d / num(c, "n_head") : d;
    return {
        d, num(c, "n_layer"), {2 * d * d + 2 * d * kv + 2 * d * num(c, "n_inner", 4 * d), 2 * d}};
  }
  if (t == "gpt_neo")
    return {hidden(c), num(c, "num_layers"),
            plain_layer(hidden(c), num(c, "intermediate_size", 4 * hidden(c)))};
  if (t == "gpt_neox" || t == "biogpt")
    return {hidden(c), layers_of(c), plain_layer(hidden(c), ffn(c))};
  if (t == "xglm")
    return {num(c, "d_model"), num(c, "num_layers"),
            plain_layer(num(c, "d_model"), num(c, "ffn_dim"))};
  if (t == "mpt") {
    const u64 d = num(c, "d_model");
    return {d, num(c, "n_layers"), plain_layer(d, num(c, "expansion_ratio", 4) * d)};
  }
  if (t == "opt") {
    const u64 d = hidden(c), e = num(c, "word_embed_proj_dim", d);
    return {e, layers_of(c), plain_layer(d, num(c, "ffn_dim")), 0, {}, e == d ? 0 : 2 * e * d};
  }
  if (t == "bloom") {
    const u64 d = bloom_width(c);
    return {d, bloom_depth(c), plain_layer(d, 4 * d)};
  }
  if (t == "falcon") {
    const u64 d = hidden(c), f = num(c, "ffn_hidden_size", 4 * d);
    const u64 kv = falcon_kv_heads(c) * (d / falcon_heads(c));
    return {d, falcon_depth(c), {2 * d * d + 2 * d * kv + 2 * d * f, 2 * d}};
  }
  const u64 d = hidden(c), n = layers_of(c);
  if (t == "starcoder2" || t == "phi") return {d, n, grouped_layer(c, 2 * d * ffn(c))};
  if (is_one_of(t, {"llama", "smollm3", "granite", "mistral", "qwen2", "qwen3", "gemma", "gemma2",
                    "gemma3_text", "olmo", "olmo2", "olmo3", "phi3", "cohere", "cohere2", "glm",
                    "stablelm"}))
    return {d, n, grouped_layer(c, 3 * d * ffn(c))};
  if (is_one_of(t, {"mixtral", "phimoe", "gpt_oss"}))
    return {
        d, n,
        grouped_layer(c, expert_products(d, ffn(c), num(c, "num_local_experts"),
                                         num(c, "num_experts_per_tok", t == "gpt_oss" ? 4 : 2)))};
  if (t == "olmoe")
    return {d, n,
            grouped_layer(c, expert_products(d, ffn(c), num(c, "num_experts", 64),
                                             num(c, "num_experts_per_tok", 8)))};
  if (t == "qwen2_moe" || t == "qwen3_moe") {
    u64 experts = expert_products(d, num(c, "moe_intermediate_size"), num(c, "num_experts"),
                                  num(c, "num_experts_per_tok"));
    if (t == "qwen2_moe") experts += 3 * d * num(c, "shared_expert_intermediate_size") + d;
    return {d, n, grouped_layer(c, experts), n - qwen_sparse_layers(c),
            grouped_layer(c, 3 * d * ffn(c))};
  }
  if (t == "deepseek_v2" || t == "deepseek_v3") {  // keys and values expanded from the latent
    const u64 m = num(c, "moe_intermediate_size"), w = deepseek_attention_matrices(c);
    const u64 pair =
        num(c, "num_attention_heads") *
        (num(c, "qk_nope_head_dim") + num(c, "qk_rope_head_dim") + num(c, "v_head_dim"));
    const u64 experts =
        expert_products(d, m, num(c, "n_routed_experts"), num(c, "num_experts_per_tok")) +
        3 * d * m * num(c, "n_shared_experts", 0);
    return {d, n, {w + experts, pair}, deepseek_dense_layers(c), {w + 3 * d * ffn(c), pair}};
  }
  throw std::invalid_argument("[released] no products for model_type " + t);
}

inline u64 decoder_maccs(const json& c, u64 n) {
  const DecoderProducts p = decoder_products(c);
  u64 total =
      n * (p.extra + (p.layers - p.dense) * p.layer.weights + p.dense * p.dense_layer.weights);
  for (u64 i = 0; i < p.layers; ++i) total += p.layer.pair * causal_pairs(n, layer_window(c, i));
  const std::string head = head_of(c);
  if (is_one_of(head, {"ForCausalLM", "LMHeadModel", "WithLMHead"}))
    return total + n * p.width * vocab(c);  // the reference computes the logits of every token
  if (is_one_of(head, {"ForSequenceClassification", "ForTokenClassification"}))
    return total + n * p.width * labels(c);  // and the score of every token
  if (head == "Model" || head == "TextModel") return total;
  unknown_head(c);
}

// Encoders like BERT. What looks at one vector (poolers, heads of a sequence) counts one row.
inline u64 encoder_maccs(const json& c, u64 n) {
  const std::string t = model_type(c), head = head_of(c);
  const bool distil = t == "distilbert", modern = t == "modernbert";
  const u64 d = distil ? num(c, "dim", 768) : hidden(c);
  const u64 f = distil ? num(c, "hidden_dim", 3072) : ffn(c);
  const u64 layers = distil ? num(c, "n_layers", 6) : layers_of(c);
  u64 e = d;
  if (t == "albert" || t == "electra") e = num(c, "embedding_size", 128);
  if (t == "roformer") e = num(c, "embedding_size", d);
  const u64 weights = 4 * d * d + (modern ? 3 : 2) * d * f;
  u64 total = n * layers * weights;
  if (t == "albert" || e != d) total += n * e * d;
  for (u64 i = 0; i < layers; ++i) {
    const bool local = modern && i % num(c, "global_attn_every_n_layers", 3) != 0;
    total += 2 * d * (local ? band_pairs(n, num(c, "local_attention", 128) / 2) : n * n);
  }
  const u64 k = labels(c), v = vocab(c), pooler = d * d;
  const bool pools =
      is_one_of(t, {"bert", "albert", "mpnet", "roberta", "xlm-roberta", "camembert"});
  const bool dense_class = is_one_of(t, {"roberta", "xlm-roberta", "camembert", "electra", "mpnet",
                                         "distilbert", "roformer", "modernbert"});
  if (head == "Model") return total + (pools ? pooler : 0);
  if (head == "ForMaskedLM" || (head == "LMHeadModel" && t == "bert"))
    return total + n * (d * e + e * v);
  if (head == "ForPreTraining" && t == "electra") return total + n * (d * d + d);
  if (head == "ForPreTraining")
    return total + n * (d * e + e * v) + pooler + d * (t == "bert" ? 2 : k);
  if (head == "ForNextSentencePrediction" && t == "bert") return total + pooler + 2 * d;
  if (head == "ForSequenceClassification" && (dense_class || pools)) return total + pooler + d * k;
  if (head == "ForTokenClassification" || head == "ForQuestionAnswering")
    return total + n * d * k + (modern ? n * d * d : 0);
  unknown_head(c);
}

// T5 and BART with n tokens on both sides.
inline u64 encoder_decoder_maccs(const json& c, u64 n) {
  const std::string t = model_type(c), head = head_of(c);
  const bool bart = is_one_of(
      t, {"bart", "mbart", "marian", "pegasus", "m2m_100", "blenderbot", "blenderbot-small"});
  const u64 d = num(c, "d_model"), v = num(c, "decoder_vocab_size", vocab(c));
  const u64 w = bart ? d : num(c, "num_heads") * num(c, "d_kv");
  const u64 encoders = bart ? num(c, "encoder_layers") : num(c, "num_layers");
  const u64 decoders = bart ? num(c, "decoder_layers") : num(c, "num_decoder_layers", encoders);
  const char* usual = t == "mt5" || t == "umt5" ? "gated-gelu" : "relu";
  const bool gated = !bart && text(c, "feed_forward_proj", usual).starts_with("gated-");
  const u64 sides = gated ? 3 : 2;
  const u64 f = bart ? num(c, "encoder_ffn_dim") : num(c, "d_ff");
  const u64 g = bart ? num(c, "decoder_ffn_dim") : num(c, "d_ff");
  const u64 encoder = encoders * (n * (4 * d * w + sides * d * f) + 2 * w * n * n);
  const u64 decoder =
      decoders * (n * (8 * d * w + sides * d * g) + 2 * w * n * n + 2 * w * causal_pairs(n, 0));
  if (head == "EncoderModel") return encoder;
  if (head == "Model") return encoder + decoder;
  if (head == "ForConditionalGeneration" || head == "LMHeadModel")
    return encoder + decoder + n * d * v;
  if (head == "ForSequenceClassification") return encoder + decoder + d * d + d * labels(c);
  unknown_head(c);
}

inline u64 gemm_maccs(const json& c, u64 n) {
  const std::string t = model_type(c);
  if (is_one_of(t, {"bert", "roberta", "xlm-roberta", "camembert", "albert", "electra", "mpnet",
                    "distilbert", "modernbert", "roformer"}))
    return encoder_maccs(c, n);
  if (is_one_of(t, {"t5", "mt5", "umt5", "bart", "mbart", "marian", "pegasus", "m2m_100",
                    "blenderbot", "blenderbot-small"}))
    return encoder_decoder_maccs(c, n);
  return decoder_maccs(c, n);
}

}  // namespace released
