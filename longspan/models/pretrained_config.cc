#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "longspan/base/config.h"
#include "longspan/models/config_fields.h"
#include "longspan/models/pretrained.h"

namespace longspan {

namespace {

using Json = nlohmann::json;
using Fields = ConfigFields;
constexpr std::string_view kWho = ConfigFields::kWho;

// What the body of a model is; the head is set below.

// Transformer blocks as in the paper, a transform between them and the output layer.
ModelConfig post_norm_encoder() {
  ModelConfig c;
  c.family = Family::kEncoder;
  c.wiring = Wiring::kPostNorm;
  c.norm_epsilon = 1e-12F;
  c.embedding_norm = true;
  c.head_bias = true;
  c.head_transform = true;
  return c;
}

// The fields that BERT and its relatives share, and what they are where the config is silent.
struct Silent {
  const char* activation;
  std::size_t token_types;
  std::int64_t padding_token;
};
ModelConfig bert_sizes(const Fields& f, const Silent& silent) {
  ModelConfig c = post_norm_encoder();
  c.layers = f.layers("num_hidden_layers");
  c.d_model = f.size("hidden_size");
  c.d_ff = f.size("intermediate_size");
  c.vocab = f.size("vocab_size");
  c.max_length = f.size("max_position_embeddings");
  c.token_types = f.size("type_vocab_size", silent.token_types);
  c.activation = f.activation("hidden_act", silent.activation);
  c.norm_epsilon = f.number("layer_norm_eps", 1e-12);
  c.dropout = f.number("hidden_dropout_prob", 0.1);
  c.init_deviation = f.number("initializer_range", 0.02);
  c.padding_token = f.has("pad_token_id") ? f.token("pad_token_id") : silent.padding_token;
  c.tied = f.flag("tie_word_embeddings", true);
  return c;
}

ModelConfig bert_config(const Fields& f) {
  ModelConfig c = bert_sizes(f, {.activation = "gelu", .token_types = 2, .padding_token = 0});
  c.heads = f.size("num_attention_heads");
  f.refuse(f.text("position_embedding_type", "absolute") != "absolute", "relative positions");
  f.refuse(f.flag("is_decoder", false), "causal or cross-attention in an encoder");
  return c;
}

// No attention, and so no heads.
ModelConfig fnet_config(const Fields& f) {
  ModelConfig c = bert_sizes(f, {.activation = "gelu_new", .token_types = 4, .padding_token = 3});
  c.heads = 1;
  c.attention = "fnet";
  c.embedding_projection = true;
  return c;
}

// Attention is told of the types of tokens, the embedding is not. Its two kinds of relative attention
// are the same sums in another order.
ModelConfig funnel_config(const Fields& f) {
  ModelConfig c = post_norm_encoder();
  std::vector<std::size_t> sizes = {4, 4, 4};
  if (f.has("block_sizes")) sizes = f.sizes("block_sizes");
  c.layers = f.size("num_decoder_layers", 2);
  for (const std::size_t size : sizes) {
    c.stages += (c.stages.empty() ? "" : "|") + std::to_string(size);
    c.layers += size;
  }
  c.stage_pool = f.text("pooling_type", "mean");
  c.stage_cls = f.flag("separate_cls", true);
  c.stage_truncate = f.flag("truncate_seq", true);
  c.unpooled_keys = f.flag("pool_q_only", true);
  c.attention = fmt::format("funnel:cls={}", c.stage_cls);
  c.d_model = f.size("d_model", 768);
  c.heads = f.size("n_head", 12);
  c.d_ff = f.size("d_inner", 3072);
  c.vocab = f.size("vocab_size", 30522);
  c.max_length = f.size("max_position_embeddings", 512);
  c.token_types = f.size("type_vocab_size", 3);
  c.embedding_types = false;
  c.positions = PositionKind::kNone;
  c.activation = f.activation("hidden_act", "gelu_new");
  c.norm_epsilon = f.number("layer_norm_eps", 1e-9);
  c.dropout = f.number("hidden_dropout", 0.1);
  c.init_deviation = f.number("initializer_range", 0.1);
  c.padding_token = f.token("pad_token_id");
  c.tied = f.flag("tie_word_embeddings", true);
  f.refuse(f.size("d_head", 64) * c.heads != c.d_model, "heads that are not as wide as the model");
  if (f.has("block_repeats")) {
    const std::vector<std::size_t> repeats = f.sizes("block_repeats");
    f.refuse(std::ranges::any_of(repeats, [](std::size_t n) { return n != 1; }),
             "layers that are run again");
  }
  return c;
}

ModelConfig roformer_config(const Fields& f) {
  ModelConfig c = bert_config(f);
  c.positions = PositionKind::kRotary;
  f.refuse(f.size("embedding_size", c.d_model) != c.d_model, "an embedding of another width");
  f.refuse(f.flag("rotary_value", false), "rotated values");
  return c;
}

ModelConfig big_bird_config(const Fields& f) {
  ModelConfig c = bert_config(f);
  if (f.text("attention_type", "block_sparse") == "block_sparse") {
    c.attention = fmt::format("bigbird:block={},random={},padded=true", f.size("block_size", 64),
                              f.size("num_random_blocks", 3));
  }
  c.attention_bias = f.flag("use_bias", true);
  c.embedding_scale = f.flag("rescale_embeddings", false);
  return c;
}

// One window for all layers, or one for each.
ModelConfig longformer_config(const Fields& f) {
  ModelConfig c = bert_config(f);
  c.position_offset = static_cast<std::size_t>(c.padding_token + 1);
  require(c.max_length > c.position_offset, "[{}] {} positions, the first of which is {}", kWho,
          c.max_length, c.position_offset);
  c.max_length -= c.position_offset;
  std::vector<std::size_t> windows = f.sizes("attention_window");
  require(!windows.empty(), "[{}] attention_window is empty; need one, or one for each layer",
          kWho);
  require(windows.size() == 1 || windows.size() == c.layers,
          "[{}] attention_window has {} numbers for {} layers; need one, or one for each layer",
          kWho, windows.size(), c.layers);
  if (std::ranges::count(windows, windows.front()) == std::ssize(windows)) windows.resize(1);
  c.attention = fmt::format("longformer:window={}", fmt::join(windows, "|longformer:window="));
  return c;
}

std::string reformer_buckets(const Fields& f) {
  return fmt::format("{}", fmt::join(f.sizes("num_buckets"), "x"));
}

std::string reformer_layers(const Fields& f) {
  std::string turns;
  for (const Json& kind : f.at("attn_layers")) {
    if (!turns.empty()) turns += "|";
    if (kind == "lsh") {
      turns += fmt::format(
          "reformer:chunk={},rounds={},buckets={},before={},after={},scaling=trax,"
          "same_bucket=false,deduplicate=false,wrap=all,strict=false,padding=bucket",
          f.size("lsh_attn_chunk_length", 64), f.size("num_hashes", 1), reformer_buckets(f),
          f.size("lsh_num_chunks_before", 1), f.size("lsh_num_chunks_after", 0));
    } else {
      require(kind == "local", "[{}] attn_layers has {}; need lsh or local", kWho, kind.dump());
      turns += fmt::format(
          "local:block={},before={},after={},wrap=true", f.size("local_attn_chunk_length", 64),
          f.size("local_num_chunks_before", 1), f.size("local_num_chunks_after", 0));
    }
  }
  return turns;
}

ModelConfig reformer_config(const Fields& f) {
  ModelConfig c;
  c.family = f.flag("is_decoder", false) ? "decoder" : "encoder";
  c.wiring = Wiring::kReversible;
  c.streams = StreamEnd::kConcat;
  c.layers = f.layers("num_hidden_layers");
  c.d_model = f.size("hidden_size");
  c.heads = f.size("num_attention_heads");
  c.d_ff = f.size("feed_forward_size");
  c.vocab = f.size("vocab_size");
  c.max_length = f.size("max_position_embeddings");
  c.activation = f.activation("hidden_act", "relu");
  c.norm_epsilon = f.number("layer_norm_eps", 1e-12);
  c.dropout = f.number("hidden_dropout_prob", 0.05);
  c.init_deviation = f.number("initializer_range", 0.02);
  c.padding_token = f.token("pad_token_id");
  c.attention_bias = false;
  c.tied = false;
  c.head_bias = true;
  c.attention = reformer_layers(f);
  if (f.flag("axial_pos_embds", true)) {
    const std::vector<std::size_t> shape = f.sizes("axial_pos_shape");
    const std::vector<std::size_t> widths = f.sizes("axial_pos_embds_dim");
    require(shape.size() == 2 && widths.size() == 2,
            "[{}] axial positions have {} axes and {} widths; need two of each", kWho, shape.size(),
            widths.size());
    c.positions = PositionKind::kAxial;
    c.axial_rows = shape[0];
    c.axial_width = widths[0];
  }
  f.refuse(f.flag("tie_word_embeddings", false), "an output layer tied to half its width");
  f.refuse(c.heads > 0 && f.size("attention_head_size", c.d_model / c.heads) * c.heads != c.d_model,
           "heads of another width");
  return c;
}

// A list, or one text with the parts joined by |.
bool has_part(const Fields& f, const char* key, std::string_view part) {
  if (!f.has(key)) return false;
  const Json& value = f.at(key);
  if (value.is_string()) return value.get<std::string>().find(part) != std::string::npos;
  require(value.is_array(), "[{}] {} is {}; need a list", kWho, key, value.dump());
  return std::ranges::find(value, Json(part)) != value.end();
}

// The largest distance that is told apart.
std::size_t deberta_span(const Fields& f, const ModelConfig& c) {
  if (!f.has("max_relative_positions")) return c.max_length;
  const Json& value = f.at("max_relative_positions");
  return value.is_number_integer() && value < 1 ? c.max_length : f.size("max_relative_positions");
}

ModelConfig deberta_body(const Fields& f) {
  ModelConfig c = bert_config(f);
  c.token_types = f.size("type_vocab_size", 0);
  c.norm_epsilon = f.number("layer_norm_eps", 1e-7);
  c.embedding_mask = true;
  if (!f.flag("position_biased_input", true)) c.positions = PositionKind::kNone;
  f.refuse(f.size("embedding_size", c.d_model) != c.d_model, "an embedding of another width");
  f.refuse(f.size("conv_kernel_size", 0) > 0, "a convolution beside the first layer");
  f.refuse(has_part(f, "pos_att_type", "p2p"), "attention of positions to positions");
  return c;
}

std::string deberta_mechanism(const Fields& f, const ModelConfig& c) {
  return fmt::format("deberta:span={},c2p={},p2c={}", deberta_span(f, c),
                     has_part(f, "pos_att_type", "c2p"), has_part(f, "pos_att_type", "p2c"));
}

ModelConfig deberta_config(const Fields& f) {
  ModelConfig c = deberta_body(f);
  if (f.flag("relative_attention", false)) {
    c.attention = deberta_mechanism(f, c) + ",content_bias=false";
  }
  f.refuse(f.flag("talking_head", false), "talking heads");
  return c;
}

ModelConfig deberta_v2_config(const Fields& f) {
  ModelConfig c = deberta_body(f);
  if (!f.flag("relative_attention", false)) return c;
  const bool bucketed = f.has("position_buckets") && f.at("position_buckets") > 0;
  c.attention =
      deberta_mechanism(f, c) +
      fmt::format(",buckets={},share={},key_bias=true,norm={},epsilon={}",
                  bucketed ? f.size("position_buckets") : 0, f.flag("share_att_key", false),
                  f.text("norm_rel_ebd", "none").find("layer_norm") != std::string::npos,
                  c.norm_epsilon);
  return c;
}

ModelConfig transfo_xl_config(const Fields& f) {
  constexpr std::size_t kLongest = std::size_t{1} << 16U;  // its positions have no end
  ModelConfig c;
  c.family = Family::kDecoder;
  c.wiring = Wiring::kPostNorm;
  c.layers = f.layers("n_layer");
  c.d_model = f.size("d_model");
  c.heads = f.size("n_head");
  c.d_ff = f.size("d_inner");
  c.vocab = f.size("vocab_size");
  c.max_length = kLongest;
  c.activation = Activation::kRelu;
  c.positions = PositionKind::kNone;
  c.attention = "transformer-xl";
  c.attention_bias = false;
  c.embedding_scale = true;
  c.norm_epsilon = f.number("layer_norm_epsilon", 1e-5);
  c.dropout = f.number("dropout", 0.1);
  c.init_deviation = f.number("init_std", 0.02);
  c.tied = f.flag("tie_word_embeddings", true);
  c.head_bias = true;
  f.refuse(f.has("cutoffs") && !f.at("cutoffs").empty(), "an adaptive softmax");
  f.refuse(f.size("d_embed", c.d_model) != c.d_model, "an embedding of another width");
  f.refuse(c.heads > 0 && f.size("d_head", c.d_model / c.heads) * c.heads != c.d_model,
           "heads of another width");
  f.refuse(f.flag("pre_lnorm", false), "a norm before the history's projection");
  f.refuse(f.flag("same_length", false), "the same number of keys for every query");
  f.refuse(f.size("attn_type", 0) != 0, "another kind of relative positions");
  return c;
}

ModelConfig distilbert_config(const Fields& f) {
  ModelConfig c = post_norm_encoder();
  c.layers = f.layers("n_layers");
  c.d_model = f.size("dim");
  c.heads = f.size("n_heads");
  c.d_ff = f.size("hidden_dim");
  c.vocab = f.size("vocab_size");
  c.max_length = f.size("max_position_embeddings");
  c.activation = f.activation("activation", "gelu");
  c.dropout = f.number("dropout", 0.1);
  c.init_deviation = f.number("initializer_range", 0.02);
  c.padding_token = f.has("pad_token_id") ? f.token("pad_token_id") : 0;
  c.tied = f.flag("tie_word_embeddings", true);
  f.refuse(f.flag("sinusoidal_pos_embds", false), "sinusoids stored as a table");
  return c;
}

ModelConfig gpt2_config(const Fields& f) {
  ModelConfig c;
  c.family = Family::kDecoder;
  c.wiring = Wiring::kPreNorm;
  c.layers = f.layers("n_layer");
  c.d_model = f.size("n_embd");
  c.heads = f.size("n_head");
  c.d_ff = f.size("n_inner", 4 * c.d_model);
  c.vocab = f.size("vocab_size");
  c.max_length = f.has("n_positions") ? f.size("n_positions") : f.size("n_ctx");
  c.activation = f.activation("activation_function", "gelu_new");
  c.norm_epsilon = f.number("layer_norm_epsilon", 1e-5);
  c.dropout = f.number("resid_pdrop", 0.1);
  c.init_deviation = f.number("initializer_range", 0.02);
  c.tied = f.flag("tie_word_embeddings", true);
  f.refuse(!f.flag("scale_attn_weights", true), "attention without a scale");
  f.refuse(f.flag("scale_attn_by_inverse_layer_idx", false), "a scale for each layer");
  f.refuse(f.flag("add_cross_attention", false), "cross-attention in a decoder without an encoder");
  return c;
}

ModelConfig llama_body() {
  ModelConfig c;
  c.family = Family::kDecoder;
  c.wiring = Wiring::kPreNorm;
  c.norm = NormKind::kRms;
  c.activation = Activation::kSilu;
  c.gated = true;
  c.bias = false;
  c.positions = PositionKind::kRotary;
  return c;
}

ModelConfig llama_config(const Fields& f) {
  ModelConfig c = llama_body();
  c.rotary_interleaved = false;
  c.layers = f.layers("num_hidden_layers");
  c.d_model = f.size("hidden_size");
  c.heads = f.size("num_attention_heads");
  c.kv_heads = f.size("num_key_value_heads", c.heads);
  c.d_ff = f.size("intermediate_size");
  c.vocab = f.size("vocab_size");
  c.max_length = f.size("max_position_embeddings", 2048);
  c.activation = f.activation("hidden_act", "silu");
  c.norm_epsilon = f.number("rms_norm_eps", 1e-6);
  c.rotary_base = f.number("rope_theta", 10000.0);
  c.init_deviation = f.number("initializer_range", 0.02);
  c.padding_token = f.token("pad_token_id");
  c.tied = f.flag("tie_word_embeddings", false);
  f.refuse(f.has("rope_scaling"), "scaled rotary positions");
  f.refuse(f.flag("attention_bias", false) || f.flag("mlp_bias", false), "biases in some layers");
  f.refuse(c.heads > 0 && f.size("head_dim", c.d_model / c.heads) * c.heads != c.d_model,
           "heads of another width");
  return c;
}

ModelConfig llama2c_config(const Fields& f) {
  ModelConfig c = llama_body();
  c.rotary_interleaved = true;
  c.layers = f.layers("n_layers");
  c.d_model = f.size("dim");
  c.heads = f.size("n_heads");
  c.kv_heads = f.size("n_kv_heads", c.heads);
  c.d_ff = f.size("hidden_dim");
  c.vocab = f.size("vocab_size");
  c.max_length = f.size("max_seq_len");
  c.norm_epsilon = f.number("norm_eps", 1e-5);
  c.rotary_base = f.number("rope_theta", 10000.0);
  c.tied = f.flag("tie_word_embeddings", true);
  return c;
}

// Masked language models transform each position before the softmax layer.
void masked_head(const Fields& /*f*/, ModelConfig& c) {
  c.head_activation = c.activation;
  c.head_norm = true;
}

// Its transform is always followed by the exact GELU.
void longformer_masked_head(const Fields& /*f*/, ModelConfig& c) {
  c.head_activation = Activation::kGelu;
  c.head_norm = true;
}

void causal_head(const Fields& /*f*/, ModelConfig& c) { c.head = HeadKind::kLanguage; }

void funnel_masked_head(const Fields& /*f*/, ModelConfig& c) {
  c.head = HeadKind::kLanguage;
  c.head_transform = false;
}

void classifier_head(const Fields& f, ModelConfig& c) {
  c.head = HeadKind::kClassifier;
  c.classes = f.classes();
}

void tagger_head(const Fields& f, ModelConfig& c) {
  c.head = HeadKind::kTagger;
  c.classes = f.classes();
  c.head_transform = false;
}

void bert_classifier(const Fields& f, ModelConfig& c) {
  classifier_head(f, c);
  c.head_activation = Activation::kTanh;  // the pooler
}

void distilbert_classifier(const Fields& f, ModelConfig& c) {
  classifier_head(f, c);
  c.head_activation = Activation::kRelu;
}

void roformer_classifier(const Fields& f, ModelConfig& c) {
  classifier_head(f, c);
  c.head_activation = c.activation;
}

struct Architecture {
  std::string_view model_type;
  std::string_view name;
  ModelConfig (*body)(const Fields& f);
  void (*head)(const Fields& f, ModelConfig& c);
};

// The first of a model_type is what a config without `architectures` means.
constexpr std::array<Architecture, 20> kArchitectures = {{
    {"bert", "BertForMaskedLM", &bert_config, &masked_head},
    {"bert", "BertForSequenceClassification", &bert_config, &bert_classifier},
    {"distilbert", "DistilBertForMaskedLM", &distilbert_config, &masked_head},
    {"distilbert", "DistilBertForSequenceClassification", &distilbert_config,
     &distilbert_classifier},
    {"fnet", "FNetForMaskedLM", &fnet_config, &masked_head},
    {"fnet", "FNetForSequenceClassification", &fnet_config, &bert_classifier},
    {"roformer", "RoFormerForMaskedLM", &roformer_config, &masked_head},
    {"roformer", "RoFormerForSequenceClassification", &roformer_config, &roformer_classifier},
    {"big_bird", "BigBirdForMaskedLM", &big_bird_config, &masked_head},
    {"big_bird", "BigBirdForSequenceClassification", &big_bird_config, &roformer_classifier},
    {"longformer", "LongformerForMaskedLM", &longformer_config, &longformer_masked_head},
    {"reformer", "ReformerModelWithLMHead", &reformer_config, &causal_head},
    {"deberta", "DebertaForMaskedLM", &deberta_config, &masked_head},
    {"deberta-v2", "DebertaV2ForMaskedLM", &deberta_v2_config, &masked_head},
    {"deberta-v2", "DebertaV2ForTokenClassification", &deberta_v2_config, &tagger_head},
    {"funnel", "FunnelForMaskedLM", &funnel_config, &funnel_masked_head},
    {"transfo-xl", "TransfoXLLMHeadModel", &transfo_xl_config, &causal_head},
    {"gpt2", "GPT2LMHeadModel", &gpt2_config, &causal_head},
    {"llama", "LlamaForCausalLM", &llama_config, &causal_head},
    {"llama2c", "Transformer", &llama2c_config, &causal_head},
}};

const Architecture& find_architecture(const Fields& f) {
  const std::string type = f.text("model_type", "");
  std::vector<std::string_view> types;
  std::vector<const Architecture*> of_type;
  for (const Architecture& a : kArchitectures) {
    if (types.empty() || types.back() != a.model_type) types.push_back(a.model_type);
    if (a.model_type == type) of_type.push_back(&a);
  }
  if (of_type.empty()) throw_unknown(kWho, "model_type", type, types);
  if (!f.has("architectures")) return *of_type.front();

  const Json& list = f.at("architectures");
  require(list.is_array() && !list.empty() && list[0].is_string(),
          "[{}] architectures is {}; need a list of names", kWho, list.dump());
  const auto name = list[0].get<std::string>();
  std::vector<std::string_view> names;
  for (const Architecture* a : of_type) {
    if (a->name == name) return *a;
    names.push_back(a->name);
  }
  throw_unknown(kWho, "architecture", name, names);
}

}  // namespace

std::string architecture_of(const Json& hf) {
  return std::string(find_architecture(Fields(hf)).name);
}

ModelConfig config_from_hugging_face(const Json& hf) {
  const Fields f(hf);
  const Architecture& architecture = find_architecture(f);
  ModelConfig config = architecture.body(f);
  architecture.head(f, config);
  check(config);
  return config;
}

}  // namespace longspan
