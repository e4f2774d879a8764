#include <gtest/gtest.h>

#include "longspan/base/config.h"
#include "longspan/models/model.h"

namespace longspan {
namespace model_config_test {

std::string error_of(const std::string& options) {
  try {
    ModelConfig config;
    parse_options("model", options, config);
    const Model model(config);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(ModelConfig, DefaultsBuild) { EXPECT_EQ(error_of(""), ""); }

TEST(ModelConfig, SaysWhatCannotBeBuilt) {
  EXPECT_EQ(error_of("d_model=10,heads=4"),
            "[model] width 10 does not divide into 4 heads; need a multiple");
  EXPECT_EQ(error_of("heads=4,kv_heads=3"),
            "[model] 4 heads cannot share 3 key-value heads; need a divisor");
  EXPECT_EQ(error_of("layers=0"), "[model] layers is 0; need at least 1");
  EXPECT_EQ(error_of("family=encoder-decoder"), "[model] decoder_layers is 0; need at least 1");
  EXPECT_EQ(error_of("head=classifier,family=encoder"), "[model] classes is 0; need at least 1");
  EXPECT_EQ(error_of("head=classifier,classes=2"),
            "[model] a classifier head on a decoder; need an encoder");
  EXPECT_EQ(error_of("dropout=1"), "[model] dropout is 1; need 0 ≤ dropout < 1");
  EXPECT_EQ(error_of("norm_epsilon=0"), "[model] norm_epsilon is 0; need a positive number");
  EXPECT_EQ(error_of("norm_epsilon=inf"), "[model] norm_epsilon is 'inf'; need a finite number");
  EXPECT_EQ(error_of("rotary_base=0"), "[model] rotary_base is 0; need a positive number");
  EXPECT_EQ(error_of("init_deviation=nan"),
            "[model] init_deviation is 'nan'; need a finite number");
  EXPECT_EQ(error_of("positions=rotary,d_model=12,heads=4"),
            "[rotary] heads are 3 wide; need an even width");
}

TEST(ModelConfig, SuggestsTheNearestName) {
  for (const char* wrong :
       {"family=decodr", "head=ml", "wiring=pree", "norm=rmss", "activation=gleu",
        "positions=rotarry", "pool=frist", "attention=flsh", "head_activation=tnah", "d_modle=3"}) {
    const std::string text = error_of(wrong);
    EXPECT_NE(text.find("did you mean '"), std::string::npos) << wrong << ": " << text;
  }
}

TEST(Model, BuildingTakesNoMemoryForWeights) {
  ModelConfig c;  // GPT-3's size: 174,604,259,328 parameters
  c.layers = 96;
  c.d_model = 12288;
  c.heads = 96;
  c.vocab = 50257;
  c.max_length = 2048;
  const Model model(c);
  EXPECT_EQ(model.parameters().count(), 174604259328U);
  EXPECT_FALSE(model.parameters().allocated());
}

// Walking needs no memory, however far its positions reach.
TEST(Model, OfAnySizeIsWalked) {
  ModelConfig far;
  for (const char* positions : {"rotary", "sinusoidal", "learned"}) {
    far.positions = positions;
    far.max_length = std::size_t{1} << 40U;
    const Model model(far);
    EXPECT_GT(model.cost({.batch = 1, .length = 1U << 20U}, true).at("mha").forward.maccs, 0U);
    EXPECT_GT(model.training_bytes({.batch = 1, .length = 2048}), 0U);
  }
}

std::string batch_error(const ModelConfig& config, const Batch& batch) {
  Model model(config);
  model.allocate(1);
  try {
    model.forward(batch, 0, 1.0F);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Model, RefusesBatchesThatDoNotFit) {
  ModelConfig c;
  c.layers = 1;
  c.d_model = 8;
  c.vocab = 5;
  c.max_length = 4;
  const std::vector<std::int32_t> tokens = {0, 1, 2, 3, 4};
  const std::vector<std::int32_t> bad = {5, 0};
  const std::vector<std::int32_t> ignored = {-1, 0};
  const std::span<const std::int32_t> two(tokens.data(), 2);
  EXPECT_EQ(batch_error(c, {.batch = 1, .length = 2, .tokens = two, .targets = ignored}), "");
  EXPECT_EQ(batch_error(c, {.batch = 0, .length = 2}),
            "[model] 0 sequences of 2 tokens; need at least 1 of each");
  EXPECT_EQ(batch_error(c, {.batch = 1, .length = 0}),
            "[model] 1 sequences of 0 tokens; need at least 1 of each");
  EXPECT_EQ(batch_error(c, {.batch = 1, .length = 5, .tokens = tokens, .targets = tokens}),
            "[model] 5 tokens; the model takes at most 4");
  EXPECT_EQ(batch_error(c, {.batch = 1, .length = 2, .tokens = two, .targets = bad}),
            "[model] target 5 is outside 0 to 4");
  EXPECT_EQ(batch_error(c, {.batch = 1, .length = 2, .tokens = two}),
            "[model] 0 targets for 2 rows of scores; need one of each row");
  EXPECT_EQ(batch_error(c, {.batch = 1, .length = 2, .tokens = bad, .targets = two}),
            "[embedding] token 5 is outside the vocabulary of 5");
  EXPECT_EQ(
      batch_error(c, {.batch = 1, .length = 2, .tokens = two, .targets = two, .lengths = two}),
      "[model] 2 lengths for 1 sequences; need one each");
  const std::vector<std::int32_t> three = {3};
  EXPECT_EQ(
      batch_error(c, {.batch = 1, .length = 2, .tokens = two, .targets = two, .lengths = three}),
      "[model] a sequence of 3 real tokens; need 0 to 2");
  c.family = Family::kEncoderDecoder;
  c.decoder_layers = 1;
  EXPECT_EQ(batch_error(c, {.batch = 1, .length = 2, .tokens = two, .targets = two}),
            "[model] 0 source tokens; need 1 to 4");
}

// Backward reads what forward left in the arena; a step in between would have overwritten it.
TEST(Model, BackwardNeedsItsForward) {
  ModelConfig c;
  c.layers = 1;
  c.d_model = 8;
  c.vocab = 5;
  Model model(c);
  model.allocate(1);
  const std::vector<std::int32_t> tokens = {0, 1, 2, 3};
  const Batch batch{.batch = 1, .length = 4, .tokens = tokens, .targets = tokens};
  const Batch other{.batch = 2, .length = 2, .tokens = tokens, .targets = tokens};
  const auto error = [&](const Batch& b) -> std::string {
    try {
      model.backward(b, 1.0F);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  const std::string refusal =
      "[model] backward without a forward; need forward on the same batch just before";
  EXPECT_EQ(error(batch), refusal);
  model.forward(batch, 0, 1.0F);
  EXPECT_EQ(error(other), refusal) << "another shape";
  EXPECT_EQ(error(batch), "");
  EXPECT_EQ(error(batch), refusal) << "twice";
  model.forward(batch, 0, 1.0F);
  model.logits(batch);
  EXPECT_EQ(error(batch), refusal) << "its memory was used again";
}

}  // namespace model_config_test
}  // namespace longspan
