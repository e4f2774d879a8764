// T5 (Raffel et al., 2020, arXiv:1910.10683), mT5 and FLAN-T5: RMSNorm, no biases, scores that are not
// scaled, and a bias of the distance that the layers of a stack share.
#include <fmt/format.h>

#include <cmath>

#include "longspan/models/families/biases.h"
#include "longspan/models/families/heads.h"

namespace longspan {

namespace t5_family {

namespace {

// "relu", or "gated-gelu", by which the approximation by tanh is meant.
void set_feed_forward(const ConfigFields& f, ModelConfig& c) {
  f.pass_over({"dense_act_fn", "is_gated_act"});
  const std::string kind = f.text("feed_forward_proj", "relu");
  c.gated = kind.starts_with("gated-");
  const std::string activation = c.gated ? kind.substr(6) : kind;
  const nlohmann::json named = {{"act", activation == "gelu" && c.gated ? "gelu_new" : activation}};
  c.activation = ConfigFields(named).activation("act", "relu");
}

ModelConfig config(const ConfigFields& f) {
  ModelConfig c;
  c.family = Family::kEncoderDecoder;
  c.norm = NormKind::kRms;
  set_biases({}, c);
  c.layers = f.layers("num_layers");
  c.decoder_layers = f.has("num_decoder_layers") ? f.layers("num_decoder_layers") : c.layers;
  c.d_model = f.size("d_model");
  c.heads = f.size("num_heads");
  const std::size_t width = f.size("d_kv", 64);
  if (width * c.heads != c.d_model) c.head_width = width;
  c.d_ff = f.size("d_ff");
  c.vocab = f.size("vocab_size");
  c.max_length = f.size("n_positions", 512);
  c.positions = PositionKind::kNone;
  c.norm_epsilon = f.number("layer_norm_epsilon", 1e-6);
  c.dropout = f.number("dropout_rate", 0.1);
  c.tied = f.flag("tie_word_embeddings", true);
  set_feed_forward(f, c);
  const std::string buckets = fmt::format("flash:scale=1,distances=buckets,buckets={},span={}",
                                          f.size("relative_attention_num_buckets", 32),
                                          f.size("relative_attention_max_distance", 128));
  c.attention = buckets;
  c.decoder_attention = buckets + ",two_sided=false";
  c.cross_attention = "flash:scale=1";
  f.pass_over({"n_positions", "output_past", "initializer_factor", "classifier_dropout",
               "num_hidden_layers", "tokenizer_class"});
  return c;
}

void place_attention(Placer& p, const std::string& from, const std::string& to, bool cross) {
  if (cross) {
    p.cross_qkv(from + ".q", from + ".k", from + ".v", to);
  } else {
    p.qkv(from + ".q", from + ".k", from + ".v", to);
  }
  p.attention_out(from + ".o", to);
}

void place_feed_forward(Placer& p, const std::string& from, const std::string& to) {
  const std::string dense = from + ".DenseReluDense";
  if (p.config().gated) {
    p.gated(dense + ".wi_0", dense + ".wi_1", to);
  } else {
    p.linear(dense + ".wi", to + ".in");
  }
  p.linear(dense + ".wo", to + ".out");
}

void place_stack(Placer& p, const std::string& stack, std::size_t layers) {
  const bool decoder = stack == "decoder";
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string from = fmt::format("{}.block.{}.layer", stack, i);
    const std::string to = fmt::format("{}.{}", stack, i);
    place_attention(p, from + ".0.SelfAttention", to + ".attention", false);
    p.norm(from + ".0.layer_norm", to + ".attention_norm");
    if (decoder) {
      place_attention(p, from + ".1.EncDecAttention", to + ".cross", true);
      p.norm(from + ".1.layer_norm", to + ".cross_norm");
    }
    const std::string last = from + (decoder ? ".2" : ".1");
    place_feed_forward(p, last, to + ".feed_forward");
    p.norm(last + ".layer_norm", to + ".feed_forward_norm");
  }
  p.whole(stack + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight",
          stack + ".distances");
  p.norm(stack + ".final_layer_norm", stack + ".norm");
}

void place(Placer& p) {
  p.whole("shared.weight", "embedding.tokens");
  p.second_name("encoder.embed_tokens.weight", "embedding.tokens");
  place_stack(p, "encoder", p.config().layers);
  if (p.config().family != Family::kEncoderDecoder) return;
  p.second_name("decoder.embed_tokens.weight", "embedding.tokens");
  place_stack(p, "decoder", p.config().decoder_layers);
}

// Where the table is the output layer too, what it reads is scaled down.
void generation(const ConfigFields& f, ModelConfig& c) {
  heads::causal(f, c);
  if (c.tied) c.logit_scale = 1.0F / std::sqrt(static_cast<float>(c.d_model));
}

void encoder(const ConfigFields& f, ModelConfig& c) {
  heads::bare(f, c);
  c.family = Family::kEncoder;
  c.decoder_layers = 0;
  c.decoder_attention.clear();
  c.cross_attention.clear();
}

constexpr CheckpointHead kT5Heads[] = {
    {"T5ForConditionalGeneration", &generation, &heads::place_causal},
    {"T5WithLMHeadModel", &generation, &heads::place_causal},
    {"T5Model", &heads::bare, &heads::nothing},
    {"T5EncoderModel", &encoder, &heads::nothing},
};
constexpr CheckpointHead kMt5Heads[] = {
    {"MT5ForConditionalGeneration", &generation, &heads::place_causal},
    {"MT5Model", &heads::bare, &heads::nothing},
    {"MT5EncoderModel", &encoder, &heads::nothing},
};

}  // namespace

}  // namespace t5_family

extern const CheckpointFamily kT5{"t5", "", &t5_family::config, &t5_family::place,
                                  t5_family::kT5Heads};
extern const CheckpointFamily kMt5{"mt5", "", &t5_family::config, &t5_family::place,
                                   t5_family::kMt5Heads};

}  // namespace longspan
