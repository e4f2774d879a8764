#include "longspan/models/pretrained.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "longspan/io/json_file.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace pretrained_test {

using Json = nlohmann::json;
using testing::message_of;
using testing::TemporaryDirectory;

Json bert(const std::string& architecture) {
  return {{"model_type", architecture.starts_with("Ro") ? "roformer" : "bert"},
          {"architectures", {architecture}},
          {"hidden_size", 8},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 2},
          {"intermediate_size", 12},
          {"vocab_size", 11},
          {"max_position_embeddings", 7},
          {"type_vocab_size", 2},
          {"id2label", {{"0", "a"}, {"1", "b"}, {"2", "c"}}}};
}

Json distilbert(const std::string& architecture) {
  return {{"model_type", "distilbert"},
          {"architectures", {architecture}},
          {"dim", 8},
          {"n_layers", 2},
          {"n_heads", 2},
          {"hidden_dim", 12},
          {"vocab_size", 11},
          {"max_position_embeddings", 7}};
}

Json gpt2() {
  return {{"model_type", "gpt2"}, {"n_embd", 8},      {"n_layer", 1},      {"n_head", 2},
          {"vocab_size", 11},     {"n_positions", 7}, {"n_inner", nullptr}};
}

Json llama() {
  return {{"model_type", "llama"},
          {"architectures", {"LlamaForCausalLM"}},
          {"hidden_size", 8},
          {"num_hidden_layers", 1},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"intermediate_size", 6},
          {"vocab_size", 11},
          {"max_position_embeddings", 7}};
}

Json llama2c() {
  return {{"model_type", "llama2c"}, {"dim", 8},        {"n_layers", 1},    {"n_heads", 4},
          {"n_kv_heads", 2},         {"hidden_dim", 6}, {"vocab_size", 11}, {"max_seq_len", 7}};
}

Json with(Json config, const Json& more) {
  config.update(more);
  return config;
}

Json big_bird(const std::string& architecture) {
  return with(bert(architecture),
              {{"model_type", "big_bird"}, {"block_size", 2}, {"num_random_blocks", 1}});
}

Json longformer() {
  return with(bert("LongformerForMaskedLM"),
              {{"model_type", "longformer"}, {"pad_token_id", 1}, {"attention_window", {2, 4}}});
}

Json deberta() {
  return with(bert("DebertaForMaskedLM"), {{"model_type", "deberta"},
                                           {"relative_attention", true},
                                           {"max_relative_positions", -1},
                                           {"pos_att_type", {"c2p", "p2c"}}});
}

Json deberta_v2(const std::string& architecture, bool share) {
  return with(bert(architecture), {{"model_type", "deberta-v2"},
                                   {"relative_attention", true},
                                   {"position_biased_input", false},
                                   {"position_buckets", share ? 4 : -1},
                                   {"share_att_key", share},
                                   {"norm_rel_ebd", share ? "layer_norm" : "none"},
                                   {"pos_att_type", "p2c|c2p"}});
}

Json funnel() {
  return {{"model_type", "funnel"}, {"block_sizes", {1, 1}}, {"num_decoder_layers", 1},
          {"d_model", 8},           {"n_head", 2},           {"d_head", 4},
          {"d_inner", 12},          {"vocab_size", 11},      {"max_position_embeddings", 7}};
}

Json reformer() {
  return {{"model_type", "reformer"},        {"hidden_size", 8},
          {"num_hidden_layers", 2},          {"num_attention_heads", 2},
          {"feed_forward_size", 12},         {"vocab_size", 11},
          {"max_position_embeddings", 6},    {"axial_pos_shape", {2, 3}},
          {"axial_pos_embds_dim", {3, 5}},   {"num_buckets", {2, 2}},
          {"attn_layers", {"lsh", "local"}}, {"is_decoder", true}};
}

std::vector<Json> all_configs() {
  return {big_bird("BigBirdForMaskedLM"),
          big_bird("BigBirdForSequenceClassification"),
          longformer(),
          deberta(),
          deberta_v2("DebertaV2ForMaskedLM", true),
          deberta_v2("DebertaV2ForTokenClassification", false),
          funnel(),
          reformer(),
          bert("BertForMaskedLM"),
          bert("BertForSequenceClassification"),
          distilbert("DistilBertForMaskedLM"),
          distilbert("DistilBertForSequenceClassification"),
          bert("RoFormerForMaskedLM"),
          bert("RoFormerForSequenceClassification"),
          gpt2(),
          llama(),
          llama2c()};
}

// A checkpoint in memory.
struct Tensor {
  Shape shape;
  std::vector<float> data;
};
using Tensors = std::map<std::string, Tensor>;

void write(const std::filesystem::path& directory, const Json& config, const Tensors& tensors) {
  std::vector<TensorSource> sources;
  for (const auto& [name, tensor] : tensors) sources.push_back({name, tensor.shape, tensor.data});
  write_safetensors(directory / "model.safetensors", sources);
  write_json(directory / "config.json", config);
}

// Every tensor that the config needs, element i of the n-th being 1000·n + i.
Tensors counting_tensors(const Json& config) {
  Tensors tensors;
  Model model(config_from_hugging_face(config));
  float base = 0.0F;
  for (const WeightPlacement& place : placements(config)) {
    if (place.second_name) continue;
    const Parameter& p = *model.parameters().find(place.parameter);
    if (place.source.empty()) continue;
    const std::size_t part = place.rows != 0 ? place.rows : p.is_vector ? p.cols : p.rows;
    const std::size_t rows = place.source_rows != 0 ? place.source_rows : part;
    Tensor& t = tensors[place.source];
    t.shape = p.is_vector       ? Shape{rows}
              : place.transpose ? Shape{p.cols, rows}
                                : Shape{rows, p.cols};
    t.data.resize(p.is_vector ? rows : rows * p.cols);
    std::iota(t.data.begin(), t.data.end(), base);
    base += 1000.0F;
  }
  return tensors;
}

TEST(Pretrained, EveryArchitectureFillsEveryWeightAndRuns) {
  for (const Json& config : all_configs()) {
    SCOPED_TRACE(architecture_of(config));
    const TemporaryDirectory directory;
    Tensors tensors = counting_tensors(config);
    for (auto& [name, tensor] : tensors) {
      for (float& value : tensor.data) value = std::sin(value);
    }
    write(directory.path(), config, tensors);
    Model model = load_pretrained(directory.path());
    for (const WeightPlacement& place : placements(config)) {
      EXPECT_NE(model.parameters().find(place.parameter), nullptr) << place.parameter;
    }
    const std::vector<std::int32_t> tokens = {1, 2, 3};
    Batch batch;
    batch.batch = 1;
    batch.length = tokens.size();
    batch.tokens = tokens;
    const ConstMatrix logits = model.logits(batch);
    EXPECT_TRUE(std::all_of(logits.data, logits.data + logits.size(),
                            [](float x) { return std::isfinite(x) && x != 0.0F; }));
  }
}

// The largest that is published, as its config has it but for the scale of its positions.
TEST(Pretrained, AModelOf405BillionWeightsIsWalked) {
  Json config = llama();
  config.update({{"hidden_size", 16384},
                 {"num_hidden_layers", 126},
                 {"num_attention_heads", 128},
                 {"num_key_value_heads", 8},
                 {"intermediate_size", 53248},
                 {"vocab_size", 128256},
                 {"max_position_embeddings", 131072}});
  const Model model(config_from_hugging_face(config));
  EXPECT_EQ(model.parameters().count(), 405'853'388'800U);
  EXPECT_GT(model.training_bytes({.batch = 1, .length = 8192}), std::size_t{1} << 39U);
}

TEST(Pretrained, StacksQueriesKeysValuesAndGateUpByRows) {
  const Tensors tensors = counting_tensors(llama());
  const TemporaryDirectory directory;
  write(directory.path(), llama(), tensors);
  Model model = load_pretrained(directory.path());
  const Parameter& qkv = *model.parameters().find("decoder.0.attention.qkv.weight");
  ASSERT_EQ(qkv.shape(), (Shape{8 + 4 + 4, 8}));
  const Tensor& k = tensors.at("model.layers.0.self_attn.k_proj.weight");
  const Tensor& v = tensors.at("model.layers.0.self_attn.v_proj.weight");
  ASSERT_EQ(k.shape, (Shape{4, 8}));
  EXPECT_TRUE(std::ranges::equal(qkv.value.subspan(64, 32), k.data));
  EXPECT_TRUE(std::ranges::equal(qkv.value.subspan(96, 32), v.data));
  const Parameter& in = *model.parameters().find("decoder.0.feed_forward.in.weight");
  EXPECT_TRUE(std::ranges::equal(in.value.subspan(48, 48),
                                 tensors.at("model.layers.0.mlp.up_proj.weight").data));
}

TEST(Pretrained, TransposesConv1dBothWays) {
  const Tensors tensors = counting_tensors(gpt2());
  const TemporaryDirectory directory;
  write(directory.path(), gpt2(), tensors);
  Model model = load_pretrained(directory.path());
  const Parameter& qkv = *model.parameters().find("decoder.0.attention.qkv.weight");
  const Tensor& theirs = tensors.at("transformer.h.0.attn.c_attn.weight");
  ASSERT_EQ(theirs.shape, (Shape{8, 24}));
  EXPECT_EQ(qkv.value[5 * 8 + 3], theirs.data[3 * 24 + 5]);
  std::ranges::copy(qkv.value, qkv.gradient.begin());
  EXPECT_EQ(source_gradient(model, placements(gpt2()), "transformer.h.0.attn.c_attn.weight"),
            theirs.data);
}

TEST(Pretrained, AcceptsOlderNames) {
  const Json config = bert("BertForMaskedLM");
  Tensors renamed;
  for (const auto& [name, tensor] : counting_tensors(config)) {
    std::string old = name.starts_with("bert.") ? name.substr(5) : name;
    if (old.ends_with("LayerNorm.weight")) old.replace(old.size() - 6, 6, "gamma");
    if (old.ends_with("LayerNorm.bias")) old.replace(old.size() - 4, 4, "beta");
    renamed[old] = tensor;
  }
  ASSERT_TRUE(renamed.contains("embeddings.LayerNorm.gamma"));
  const TemporaryDirectory directory;
  write(directory.path(), config, renamed);
  Model model = load_pretrained(directory.path());
  EXPECT_TRUE(std::ranges::equal(model.parameters().find("embedding.norm.weight")->value,
                                 renamed["embeddings.LayerNorm.gamma"].data));
}

TEST(Pretrained, ATiedTensorMayBeStoredTwiceButMustBeEqual) {
  Tensors tensors = counting_tensors(gpt2());
  tensors["lm_head.weight"] = tensors["transformer.wte.weight"];
  const TemporaryDirectory directory;
  write(directory.path(), gpt2(), tensors);
  EXPECT_NO_THROW(load_pretrained(directory.path()));

  tensors["lm_head.weight"].data[3] += 1.0F;
  write(directory.path(), gpt2(), tensors);
  EXPECT_NE(message_of([&] { load_pretrained(directory.path()); })
                .find("tensor 'lm_head.weight' is tied to 'embedding.tokens' by the config, but "
                      "differs from it"),
            std::string::npos);

  Json untied = gpt2();
  untied["tie_word_embeddings"] = false;
  write(directory.path(), untied, tensors);
  Model model = load_pretrained(directory.path());
  EXPECT_TRUE(std::ranges::equal(model.parameters().find("head.output.weight")->value,
                                 tensors["lm_head.weight"].data));
}

TEST(Pretrained, SaysWhichTensorIsMissingOrMisshapen) {
  const TemporaryDirectory directory;
  Tensors tensors = counting_tensors(llama());
  const auto message = [&] {
    write(directory.path(), llama(), tensors);
    return message_of([&] { load_pretrained(directory.path()); });
  };
  const Tensor k = tensors["model.layers.0.self_attn.k_proj.weight"];
  tensors.erase("model.layers.0.self_attn.k_proj.weight");
  EXPECT_NE(
      message().find("model.safetensors has no tensor 'model.layers.0.self_attn.k_proj.weight'"
                     " for 'decoder.0.attention.qkv.weight'"),
      std::string::npos)
      << message();
  tensors["model.layers.0.self_attn.k_proj.weight"] = {{8, 4}, k.data};
  EXPECT_NE(message().find("tensor 'model.layers.0.self_attn.k_proj.weight' is [8, 4]; the config "
                           "needs [4, 8]"),
            std::string::npos)
      << message();
}

TEST(Pretrained, SaysWhatIsWrongWithAConfig) {
  const auto message = [](Json config, const char* key, const Json& value) {
    config[key] = value;
    return message_of([&] { config_from_hugging_face(config); });
  };
  const Json b = bert("BertForMaskedLM");
  EXPECT_EQ(
      message(b, "model_type", "brt"),
      "[pretrained] unknown model_type 'brt'; did you mean 'bert'?; `longspan list --families` "
      "names those that are known, and any model can be described by its dimensions "
      "(--encoder-layers or --decoder-layers, --d-model, --heads, --d-ff, --vocab)");
  EXPECT_EQ(message(b, "model_type", "resnet").find("did you mean"), std::string::npos);
  EXPECT_NE(message(b, "architectures", Json::array({"BertForMasked"})).find("'BertForMaskedLM'"),
            std::string::npos);
  EXPECT_NE(message(b, "architectures", "BertForMaskedLM").find("need a list of names"),
            std::string::npos);
  EXPECT_EQ(message(b, "hidden_size", nullptr), "[pretrained] the config has no hidden_size");
  EXPECT_EQ(message(b, "hidden_size", "wide"),
            "[pretrained] hidden_size is \"wide\"; need a whole number from 0 to 16777216");
  EXPECT_NE(message(b, "hidden_size", -8).find("need a whole number"), std::string::npos);
  EXPECT_NE(message(b, "vocab_size", 1e300).find("need a whole number"), std::string::npos);
  EXPECT_NE(message(b, "num_hidden_layers", 5000).find("need at most 4096"), std::string::npos);
  EXPECT_NE(message(b, "num_attention_heads", 3).find("does not divide"), std::string::npos);
  EXPECT_NE(message(b, "hidden_act", "gelu_nww").find("did you mean 'gelu_new'"),
            std::string::npos);
  EXPECT_NE(message(b, "position_embedding_type", "relative_keys").find("need absolute"),
            std::string::npos);
  EXPECT_NE(message(llama(), "rope_scaling", {{"type", "linaer"}}).find("did you mean 'linear'"),
            std::string::npos);
  EXPECT_NE(message(llama(), "attention_bias", "yes").find("need true or false"),
            std::string::npos);
  EXPECT_EQ(message_of([] {
              config_from_hugging_face(
                  with(longformer(), {{"num_hidden_layers", 3}, {"attention_window", {2, 4}}}));
            }),
            "[pretrained] attention_window has 2 numbers for 3 layers; need one, or one for each "
            "layer");
  EXPECT_EQ(message_of([] { config_from_hugging_face(Json::array()); }),
            "[pretrained] the config is array; need an object");
}

// What nobody knows may change the model; what says nothing, or is known to change nothing, does not.
TEST(Pretrained, FieldsThatNobodyKnowsAreRefusedByName) {
  const auto message = [](const char* key, const Json& value) {
    return message_of([&] { config_from_hugging_face(with(llama(), {{key, value}})); });
  };
  EXPECT_EQ(message("sliding_window", 4096),
            "[pretrained] the config has sliding_window = 4096, which longspan does not know in a "
            "model of type llama; remove it if it changes nothing, or describe the model by its "
            "dimensions");
  for (const char* key : {"num_local_experts", "kv_lora_rank", "partial_rotary", "layer_windows"}) {
    EXPECT_NE(message(key, 2).find(key), std::string::npos) << key;
  }
  EXPECT_NE(message("layer_types", {"full_attention"}).find("layer_types"), std::string::npos);
  EXPECT_NE(message("quantization_config", {{"bits", 4}}).find("quantization_config"),
            std::string::npos);
  EXPECT_NE(message("rope_scaling", {{"type", "linear"}, {"factor", 2}, {"twist", 1}})
                .find("rope_scaling.twist"),
            std::string::npos);
  for (const char* key : {"sliding_window", "num_local_experts"}) {
    EXPECT_EQ(message(key, nullptr), "") << key;
  }
  EXPECT_EQ(message("torch_dtype", "bfloat16"), "");
  EXPECT_EQ(message("_name_or_path", "somewhere"), "");
  const std::vector<std::string> passed = fields_of_no_account(with(
      llama(), {{"torch_dtype", "bfloat16"}, {"use_cache", true}, {"sliding_window", nullptr}}));
  EXPECT_NE(std::ranges::find(passed, "torch_dtype"), passed.end());
  EXPECT_NE(std::ranges::find(passed, "use_cache"), passed.end());
  EXPECT_EQ(std::ranges::find(passed, "hidden_size"), passed.end());
}

}  // namespace pretrained_test
}  // namespace longspan
