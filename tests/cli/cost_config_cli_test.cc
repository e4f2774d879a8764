// longspan cost on configs of others, and options that contradict each other.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "longspan/testing/command_line.h"

namespace longspan::testing {
namespace cost_config_cli_test {

using Json = nlohmann::json;

std::string written(const TemporaryDirectory& scratch, const char* config) {
  const std::string path = (scratch / "config.json").string();
  write_bytes(path, config);
  return path;
}

Json cost_of_config(const char* config) {
  const TemporaryDirectory scratch;
  const Outcome outcome = longspan({"cost", "--model", written(scratch, config), "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return Json::parse(outcome.out);
}

// The sizes that the library of these configs counts.
TEST(CostOfConfig, AttentionIsTheModelsOwn) {
  const Json longformer = cost_of_config(R"({"model_type": "longformer",
      "architectures": ["LongformerForMaskedLM"], "attention_window": [512, 512, 512, 512, 512,
      512, 512, 512, 512, 512, 512, 512], "hidden_size": 768, "num_hidden_layers": 12,
      "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 50265,
      "max_position_embeddings": 4098, "type_vocab_size": 1, "hidden_act": "gelu",
      "layer_norm_eps": 1e-05, "pad_token_id": 1, "sep_token_id": 2})");
  EXPECT_EQ(longformer["parameters"]["total"], 148711257);
  EXPECT_EQ(longformer["config"]["attention"].get<std::string>().substr(0, 10), "longformer");
  const Json deberta = cost_of_config(R"({"model_type": "deberta-v2",
      "architectures": ["DebertaV2ForMaskedLM"], "attention_probs_dropout_prob": 0.1,
      "hidden_act": "gelu", "hidden_size": 768, "intermediate_size": 3072,
      "max_position_embeddings": 512, "relative_attention": true, "position_buckets": 256,
      "norm_rel_ebd": "layer_norm", "share_att_key": true, "pos_att_type": "p2c|c2p",
      "layer_norm_eps": 1e-07, "max_relative_positions": -1, "position_biased_input": false,
      "num_attention_heads": 12, "num_hidden_layers": 12, "type_vocab_size": 0,
      "vocab_size": 128100})");
  EXPECT_EQ(deberta["parameters"]["total"], 184551780);
  EXPECT_EQ(deberta["config"]["attention"].get<std::string>().substr(0, 7), "deberta");

  // DeBERTa-base: its keys have no bias.
  const Json first = cost_of_config(R"({"model_type": "deberta",
      "architectures": ["DebertaForMaskedLM"], "hidden_act": "gelu", "hidden_size": 768,
      "intermediate_size": 3072, "max_position_embeddings": 512, "relative_attention": true,
      "pos_att_type": "c2p|p2c", "layer_norm_eps": 1e-07, "max_relative_positions": -1,
      "position_biased_input": false, "num_attention_heads": 12, "num_hidden_layers": 12,
      "type_vocab_size": 0, "vocab_size": 50265})");
  EXPECT_EQ(first["parameters"]["total"], 139244121);

  // Reformer, trained on enwik8.
  const Json reformer = cost_of_config(R"({"model_type": "reformer",
      "architectures": ["ReformerModelWithLMHead"], "attention_head_size": 128,
      "attn_layers": ["local", "local", "lsh", "local", "local", "local", "lsh", "local", "local",
                      "local", "lsh", "local"],
      "axial_pos_embds": true, "axial_pos_embds_dim": [256, 768], "axial_pos_shape": [128, 512],
      "feed_forward_size": 4096, "hidden_act": "relu", "hidden_size": 1024, "is_decoder": true,
      "local_attn_chunk_length": 128, "lsh_attn_chunk_length": 256,
      "max_position_embeddings": 65536, "num_attention_heads": 8, "num_buckets": 512,
      "num_hashes": 4, "num_hidden_layers": 12, "vocab_size": 258})");
  EXPECT_EQ(reformer["parameters"]["total"], 149182722);
}

// What the paper does not have is counted as it is executed, by backpropagation.
TEST(Cost, ModelsBeyondThePaper) {
  const std::vector<std::string> size = {"cost", "--encoder-layers", "2", "--d-model",
                                         "16",   "--heads",          "2", "--vocab",
                                         "10",   "--length",         "8"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), size.begin(), size.end());
    return longspan(more);
  };
  for (const std::vector<std::string>& kind :
       {std::vector<std::string>{"--attention", "fnet"}, {"--feed-forward", "experts:experts=4"}}) {
    const Outcome outcome = with(kind);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("executed"), std::string::npos);
    EXPECT_EQ(outcome.out.find("printed"), std::string::npos);
    std::vector<std::string> formula = kind;
    formula.emplace_back("--formula");
    expect_wrong_input(with(formula), "this model has others");
  }
  const Outcome verified =
      with({"--attention", "fnet", "--feed-forward", "experts:experts=4", "--verify"});
  EXPECT_EQ(verified.status, 0) << verified.err;
  EXPECT_EQ(verified.out.find("DIFFERENT"), std::string::npos) << verified.out;
  expect_wrong_input(with({"--attention", "experts"}), "'experts' does not mix tokens");
  expect_wrong_input(with({"--feed-forward", "flash"}), "unknown feed-forward 'flash'");
  expect_wrong_input(with({"--feed-forward", "experts:experts=1000000"}),
                     "need a whole number from 1 to 4096");
}

TEST(Cost, NoBiasAndAttentionBiasContradict) {
  expect_wrong_input(longspan({"cost", "--encoder-layers", "1", "--d-model", "8", "--heads", "2",
                               "--vocab", "9", "--length", "4", "--no-bias", "--attention-bias"}),
                     "need the one or the other");
}

TEST(Cost, DrawnFeaturesAreNoParameters) {
  for (const char* attention : {"reformer", "performer"}) {
    const Outcome outcome =
        longspan({"cost", "--encoder-layers", "2", "--d-model", "64", "--heads", "2", "--vocab",
                  "9", "--length", "64", "--attention", attention, "--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const Json json = Json::parse(outcome.out);
    EXPECT_EQ(json["memory"]["parameters"], 4 * json["parameters"]["total"].get<long>());
    EXPECT_GT(json["memory"]["drawn"], 0);
  }
}

}  // namespace cost_config_cli_test
}  // namespace longspan::testing
