#include "longspan/models/families/llama_like.h"

#include <fmt/format.h>

namespace longspan {

ModelConfig llama_sizes(const ConfigFields& f, const LlamaDefaults& defaults) {
  ModelConfig c;
  c.family = Family::kDecoder;
  c.norm = NormKind::kRms;
  c.gated = true;
  set_biases({}, c);
  c.layers = f.layers("num_hidden_layers");
  c.d_model = f.size("hidden_size");
  c.heads = f.size("num_attention_heads");
  c.kv_heads = f.has("num_key_value_heads")
                   ? f.positive("num_key_value_heads")
                   : f.size_or_none("num_key_value_heads", defaults.kv_heads);
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  require(c.heads > 0, "[{}] num_attention_heads is 0; need 1 or more", ConfigFields::kWho);
  const std::size_t usual = f.absent("head_dim") ? defaults.head_width : 0;
  const std::size_t width = f.positive("head_dim", usual == 0 ? c.d_model / c.heads : usual);
  if (width * c.heads != c.d_model) c.head_width = width;
  c.d_ff = f.positive("intermediate_size");
  c.vocab = f.size("vocab_size");
  c.max_length = f.size("max_position_embeddings", defaults.length);
  c.activation = f.activation("hidden_act", "silu");
  c.norm_epsilon = f.number("rms_norm_eps", defaults.epsilon);
  c.init_deviation = f.number("initializer_range", 0.02);
  c.padding_token = f.token("pad_token_id");
  f.pass_over({"pretraining_tp", "resid_pdrop", "embd_pdrop", "attention_dropout",
               "residual_dropout", "embedding_dropout", "hidden_dropout"});
  return c;
}

std::string windowed(const std::string& options, std::size_t window) {
  const std::string all =
      with_option(options, window == 0 ? "" : fmt::format("before={}", window - 1));
  return all.empty() ? "flash" : "flash:" + all;
}

std::string attention_of(const std::vector<bool>& sliding, const std::string& options,
                         std::size_t window) {
  std::vector<std::string> layers;
  for (const bool slides : sliding) {
    require(!slides || window > 0,
            "[{}] layers with a sliding window, and no sliding_window; need its size",
            ConfigFields::kWho);
    layers.push_back(windowed(options, slides ? window : 0));
  }
  return in_turn(layers);
}

void place_llama_ends(Placer& p) {
  p.whole(p.base("embed_tokens.weight"), "embedding.tokens");
  p.norm(p.base("norm"), "decoder.norm");
}

void place_llama_attention(Placer& p, std::size_t i) {
  const std::string self = p.source_layer("layers", i) + ".self_attn";
  const std::string to = p.layer(i) + ".attention";
  p.qkv(self + ".q_proj", self + ".k_proj", self + ".v_proj", to);
  p.attention_out(self + ".o_proj", to);
  if (p.config().query_norm == QueryNorm::kNone) return;
  p.norm(self + ".q_norm", to + ".query_norm");
  p.norm(self + ".k_norm", to + ".key_norm");
}

void place_llama_feed_forward(Placer& p, std::size_t i) {
  const std::string mlp = p.source_layer("layers", i) + ".mlp";
  const std::string to = p.layer(i) + ".feed_forward";
  p.gated(mlp + ".gate_proj", mlp + ".up_proj", to);
  p.linear(mlp + ".down_proj", to + ".out");
}

void place_llama(Placer& p) {
  place_llama_ends(p);
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = p.source_layer("layers", i);
    p.norm(from + ".input_layernorm", p.layer(i) + ".attention_norm");
    place_llama_attention(p, i);
    p.norm(from + ".post_attention_layernorm", p.layer(i) + ".feed_forward_norm");
    place_llama_feed_forward(p, i);
  }
}

}  // namespace longspan
