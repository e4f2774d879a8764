// T5 (Raffel et al., 2020, arXiv:1910.10683), mT5 and FLAN-T5: RMSNorm, no biases, scores that are not
// scaled, and a bias of the distance that the layers of a stack share. LongT5 (Guo et al., 2022,
// arXiv:2112.07916), whose encoder has a window, or a window and a summary of every block. Switch
// (Fedus et al., 2022, arXiv:2101.03961) with experts in every few layers.
#include <fmt/format.h>

#include <cmath>

#include "longspan/models/families/biases.h"
#include "longspan/models/families/heads.h"
#include "longspan/models/families/turns.h"

namespace longspan {

namespace t5_family {

namespace {

// "relu", or "gated-gelu", by which the approximation by tanh is meant.
void set_feed_forward(const ConfigFields& f, const char* otherwise, ModelConfig& c) {
  f.pass_over({"dense_act_fn", "is_gated_act"});
  const std::string kind = f.text("feed_forward_proj", otherwise);
  c.gated = kind.starts_with("gated-");
  const std::string activation = c.gated ? kind.substr(6) : kind;
  const nlohmann::json named = {{"act", activation == "gelu" && c.gated ? "gelu_new" : activation}};
  c.activation = ConfigFields(named).activation("act", "relu");
}

ModelConfig body(const ConfigFields& f, const char* feed_forward) {
  ModelConfig c;
  c.family = Family::kEncoderDecoder;
  c.norm = NormKind::kRms;
  set_biases({}, c);
  c.layers = f.layers("num_layers");
  c.decoder_layers = f.has("num_decoder_layers") ? f.layers("num_decoder_layers") : c.layers;
  c.d_model = f.size("d_model");
  c.heads = f.size("num_heads");
  const std::size_t width = f.positive("d_kv", 64);
  if (width * c.heads != c.d_model) c.head_width = width;
  c.d_ff = f.positive("d_ff");
  c.vocab = f.size("vocab_size");
  c.max_length = f.size("n_positions", 512);
  c.positions = PositionKind::kNone;
  c.norm_epsilon = f.number("layer_norm_epsilon", 1e-6);
  c.dropout = f.number("dropout_rate", 0.1);
  c.tied = f.flag("tie_word_embeddings", true);
  set_feed_forward(f, feed_forward, c);
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

ModelConfig config(const ConfigFields& f) { return body(f, "relu"); }

ModelConfig config_mt5(const ConfigFields& f) { return body(f, "gated-gelu"); }

void place_attention(Placer& p, const std::string& from, const std::string& to, bool cross) {
  if (cross) {
    p.cross_qkv(from + ".q", from + ".k", from + ".v", to);
  } else {
    p.qkv(from + ".q", from + ".k", from + ".v", to);
  }
  p.attention_out(from + ".o", to);
}

void place_feed_forward(Placer& p, const std::string& dense, const std::string& to) {
  if (p.config().gated) {
    p.gated(dense + ".wi_0", dense + ".wi_1", to);
  } else {
    p.linear(dense + ".wi", to + ".in");
  }
  p.linear(dense + ".wo", to + ".out");
}

void place_experts(Placer& p, const std::string& mlp, const std::string& to) {
  p.whole(mlp + ".router.classifier.weight", to + ".router.weight");
  for (std::size_t e = 0; e < p.expert_sizes().experts; ++e) {
    place_feed_forward(p, fmt::format("{}.experts.expert_{}", mlp, e),
                       fmt::format("{}.expert.{}", to, e));
  }
}

// What self-attention is called, and a dense feed-forward.
struct Names {
  const char* encoder = "SelfAttention";
  const char* dense = "DenseReluDense";
};

void place_stack(Placer& p, const std::string& stack, std::size_t layers, const Names& names) {
  const bool decoder = stack == "decoder";
  const std::string self = fmt::format(".0.{}", decoder ? "SelfAttention" : names.encoder);
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string from = fmt::format("{}.block.{}.layer", stack, i);
    const std::string to = fmt::format("{}.{}", stack, i);
    place_attention(p, from + self, to + ".attention", false);
    p.norm(from + ".0.layer_norm", to + ".attention_norm");
    if (!decoder && p.uses("transient-global")) {
      p.whole(from + self + ".global_input_layer_norm.weight", to + ".attention.global_norm.gamma");
    }
    if (decoder) {
      place_attention(p, from + ".1.EncDecAttention", to + ".cross", true);
      p.norm(from + ".1.layer_norm", to + ".cross_norm");
    }
    const std::string last = from + (decoder ? ".2" : ".1");
    if (turn_of(p.config().feed_forward, i) == "dense") {
      place_feed_forward(p, last + "." + names.dense, to + ".feed_forward");
    } else {
      place_experts(p, last + ".mlp", to + ".feed_forward");
    }
    p.norm(last + ".layer_norm", to + ".feed_forward_norm");
  }
  const std::string first = stack + ".block.0.layer" + self;
  p.whole(first + ".relative_attention_bias.weight", stack + ".distances");
  if (!decoder && p.uses("transient-global")) {
    p.whole(first + ".global_relative_attention_bias.weight", stack + ".global_distances");
  }
  p.norm(stack + ".final_layer_norm", stack + ".norm");
}

void place_named(Placer& p, const Names& names) {
  p.whole("shared.weight", "embedding.tokens");
  p.second_name("encoder.embed_tokens.weight", "embedding.tokens");
  place_stack(p, "encoder", p.config().layers, names);
  if (p.config().family != Family::kEncoderDecoder) return;
  p.second_name("decoder.embed_tokens.weight", "embedding.tokens");
  place_stack(p, "decoder", p.config().decoder_layers, names);
}

void place(Placer& p) { place_named(p, {}); }

void place_long(Placer& p) {
  place_named(p, {.encoder = p.uses("transient-global") ? "TransientGlobalSelfAttention"
                                                        : "LocalSelfAttention"});
}

void place_switch(Placer& p) { place_named(p, {.dense = "mlp"}); }

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

ModelConfig long_t5(const ConfigFields& f) {
  ModelConfig c = config(f);
  const std::size_t radius = f.size("local_radius", 127);
  const std::size_t block = f.size("global_block_size", 16);
  const std::string kind = f.text("encoder_attention_type", "local");
  const std::size_t buckets = f.size("relative_attention_num_buckets", 32);
  const std::size_t span = f.size("relative_attention_max_distance", 128);
  if (kind == "local") {
    c.attention += fmt::format(",before={},after={}", radius, radius);
  } else {
    f.refuse(kind != "transient-global", "another kind of attention in the encoder");
    c.attention =
        fmt::format("transient-global:radius={},block={},scale=1,buckets={},span={},epsilon={}",
                    radius, block, buckets, span, c.norm_epsilon);
  }
  return c;
}

// One layer in so many has experts, the second of each turn.
std::string sparse_layers(const ConfigFields& f, const char* sparse, const char* step,
                          std::size_t layers, const std::string& experts) {
  f.pass_over({step});
  const std::size_t count = f.size(sparse, 3);
  const std::size_t every = count == 0 ? 0 : layers / count;
  std::vector<std::string> turns;
  for (std::size_t i = 0; i < layers; ++i) {
    turns.push_back(every > 0 && (every == 1 || i % every == 1) ? experts : "dense");
  }
  return in_turn(turns);
}

ModelConfig switch_transformer(const ConfigFields& f) {
  ModelConfig c = config(f);
  if (f.has("dense_act_fn")) c.activation = f.activation("dense_act_fn", "relu");
  if (!f.has("num_decoder_layers")) c.decoder_layers = 12;
  const std::string experts = fmt::format(
      "experts:experts={},places={},normalize=false,overflow=pass,padding=true,balance={},"
      "balance_of=sequences,squares={}",
      f.size("num_experts", 8), f.size("expert_capacity", 64),
      f.exact_number("router_aux_loss_coef", 0.001), f.exact_number("router_z_loss_coef", 0.001));
  c.feed_forward =
      sparse_layers(f, "num_sparse_encoder_layers", "encoder_sparse_step", c.layers, experts);
  const std::string decoder = sparse_layers(f, "num_sparse_decoder_layers", "decoder_sparse_step",
                                            c.decoder_layers, experts);
  f.refuse(decoder != c.feed_forward, "experts in other layers of the decoder than of the encoder");
  f.refuse(f.flag("router_bias", false), "a bias of the router");
  f.refuse(f.size("num_selected_experts", 1) != 1, "several experts of a token");
  f.refuse(f.flag("add_router_probs", false), "router probabilities in its output");
  f.pass_over({"router_type", "router_jitter_noise", "router_dtype", "router_ignore_padding_tokens",
               "output_router_logits"});
  return c;
}

constexpr CheckpointHead kLongT5Heads[] = {
    {"LongT5ForConditionalGeneration", &generation, &heads::place_causal},
    {"LongT5Model", &heads::bare, &heads::nothing},
    {"LongT5EncoderModel", &encoder, &heads::nothing},
};
constexpr CheckpointHead kSwitchHeads[] = {
    {"SwitchTransformersForConditionalGeneration", &generation, &heads::place_causal},
    {"SwitchTransformersModel", &heads::bare, &heads::nothing},
    {"SwitchTransformersEncoderModel", &encoder, &heads::nothing},
};
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
extern const CheckpointFamily kLongT5{"longt5", "", &t5_family::long_t5, &t5_family::place_long,
                                      t5_family::kLongT5Heads};
extern const CheckpointFamily kSwitch{"switch_transformers", "", &t5_family::switch_transformer,
                                      &t5_family::place_switch, t5_family::kSwitchHeads};
extern const CheckpointFamily kMt5{"mt5", "", &t5_family::config_mt5, &t5_family::place,
                                   t5_family::kMt5Heads};

}  // namespace longspan
