#include <fmt/core.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <type_traits>
#include <vector>

#include "longspan/base/config.h"
#include "longspan/kernels/rows/draw_normal.h"
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
            "[model] width 10 does not divide into 4 heads; need a multiple, or head_width");
  EXPECT_EQ(error_of("heads=4,kv_heads=3"),
            "[model] 4 heads cannot share 3 key-value heads; need a divisor");
  EXPECT_EQ(error_of("layers=0"), "[model] layers is 0; need at least 1");
  EXPECT_EQ(error_of("family=encoder-decoder"), "[model] decoder_layers is 0; need at least 1");
  EXPECT_EQ(error_of("head=classifier,family=encoder"), "[model] classes is 0; need at least 1");
  EXPECT_EQ(error_of("head=classifier,classes=2"),
            "[model] a classifier head on a decoder; need an encoder");
  EXPECT_EQ(error_of("head=pairs,classes=2"), "[model] a pairs head on a decoder; need an encoder");
  EXPECT_EQ(error_of("family=encoder,head=pairs,classes=2,head_transform=1"),
            "[model] head_transform or head_norm with a head of pairs, which has layers of its "
            "own; need neither");
  EXPECT_EQ(error_of("dropout=1"), "[model] dropout is 1; need 0 ≤ dropout < 1");
  EXPECT_EQ(error_of("norm_epsilon=0"), "[model] norm_epsilon is 0; need a positive number");
  EXPECT_EQ(error_of("norm_epsilon=inf"), "[model] norm_epsilon is 'inf'; need a finite number");
  EXPECT_EQ(error_of("rotary_base=0"), "[model] rotary_base is 0; need a positive number");
  EXPECT_EQ(error_of("init_deviation=nan"),
            "[model] init_deviation is 'nan'; need a finite number");
  EXPECT_EQ(
      error_of("positions=rotary,d_model=12,heads=4"),
      "[rotary] 3 channels of heads that are 3 wide; need an even width of at most the head's");
}

TEST(ModelConfig, SuggestsTheNearestName) {
  for (const char* wrong :
       {"family=decodr", "head=ml", "wiring=pree", "norm=rmss", "activation=gleu",
        "positions=rotarry", "pool=frist", "attention=flsh", "head_activation=tnah", "d_modle=3"}) {
    const std::string text = error_of(wrong);
    EXPECT_NE(text.find("did you mean '"), std::string::npos) << wrong << ": " << text;
  }
}

// The largest size of a hostile file, one that wraps when it is multiplied by 8, and one that is
// only absurd: each field alone is refused at once, whatever the others are.
TEST(ModelConfig, EverySizeHasALimit) {
  constexpr std::array<std::size_t, 3> kHostile = {std::size_t{0} - 1, (std::size_t{1} << 61U) + 1,
                                                   (std::size_t{1} << 40U) + 8};
  for (const std::size_t hostile : kHostile) {
    for (const char* family : {"encoder", "decoder", "encoder-decoder", "mlp"}) {
      std::vector<std::string> fields;
      ModelConfig().visit([&](std::string_view name, auto& field) {
        if constexpr (std::is_same_v<decltype(field), std::size_t&>) fields.emplace_back(name);
      });
      EXPECT_GE(fields.size(), 15U);
      for (const std::string& wrong : fields) {
        ModelConfig config;
        config.family = family;
        config.visit([&](std::string_view name, auto& field) {
          if constexpr (std::is_same_v<decltype(field), std::size_t&>) {
            if (name == wrong) field = hostile;
          }
        });
        try {
          const Model model(config);
          ADD_FAILURE() << wrong << " may be " << hostile;
        } catch (const Error& e) {
          EXPECT_NE(std::string(e.what()).find(fmt::format("[model] {} is {}", wrong, hostile)),
                    std::string::npos)
              << e.what();
        }
      }
    }
  }
}

TEST(ModelConfig, LimitsCoverWhatIsNoSize) {
  ModelConfig config;
  config.padding_token = std::int64_t{1} << 40U;
  EXPECT_THROW(check(config), Error);
  config = {};
  config.attention = std::string(5000, '|');
  EXPECT_THROW(check(config), Error);
  config.attention = std::string(ModelLimits::kText + 1, 'a');
  EXPECT_THROW(check(config), Error);
}

// Fields that are each within their limit, but not their products.
TEST(ModelConfig, ProductsHaveALimit) {
  ModelConfig config;
  config.d_model = ModelLimits::kWidth;
  config.heads = 1;
  for (const char* positions : {"rotary", "sinusoidal", "learned"}) {
    config.positions = positions;
    config.max_length = ModelLimits::kLength;
    try {
      Model model(config);
      model.allocate(1);
      ADD_FAILURE() << positions;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("need"), std::string::npos) << e.what();
    }
  }
}

TEST(ModelConfig, AsManyLayersAsThereMayBeAreWalked) {
  ModelConfig config;
  config.layers = ModelLimits::kLayers;
  const Model model(config);
  EXPECT_GT(model.training_bytes({.batch = 1, .length = 8}), 0U);
}

// Rows that wrap to none would be embedded into no memory.
TEST(Model, RefusesBatchesThatCannotBeCounted) {
  ModelConfig config;
  config.layers = 1;
  Model model(config);
  model.allocate(1);
  const Batch wraps{.batch = std::size_t{1} << 62U, .length = 4};
  EXPECT_THROW(model.forward(wraps, 0, 1.0F), Error);
  EXPECT_THROW(model.logits(wraps), Error);
  EXPECT_THROW(model.cost(wraps, true), Error);
  EXPECT_THROW(model.training_bytes(wraps), Error);
  EXPECT_THROW(model.inference_bytes(wraps), Error);
  EXPECT_THROW(model.walk_decode(wraps, 0, 64), Error);
  EXPECT_THROW(model.cache_bytes(std::size_t{1} << 62U, 4), Error);
  EXPECT_THROW(model.cache_bytes(1, std::size_t{1} << 62U), Error);
  EXPECT_THROW(model.make_histories(std::size_t{1} << 62U, 4), std::exception);
}

// Everything that a program may call too early, or of a model that has no such part.
TEST(Model, WithoutMemoryIsRefused) {
  const std::vector<std::int32_t> tokens = {0, 1, 2, 3};
  const Batch batch{.batch = 1, .length = 4, .tokens = tokens, .targets = tokens};
  Model model(ModelConfig{});
  const auto refused = [](const auto& call) {
    try {
      call();
    } catch (const Error& e) {
      EXPECT_STREQ(e.what(), "[model] the weights have no memory; allocate first");
      return;
    }
    ADD_FAILURE() << "not refused";
  };
  refused([&] { model.forward(batch, 0, 1.0F); });
  refused([&] { model.logits(batch); });
  refused([&] { model.evaluate(batch); });
  refused([&] { model.begin_step(0); });
  refused([&] { model.end_step(); });
  Arena memory(model.cache_bytes(1, 8));
  std::vector<DecodeCache> caches = model.make_caches(1, 8, memory);
  refused([&] { model.decode(batch, caches); });
  EXPECT_THROW(model.backward(batch, 1.0F), Error);
  EXPECT_THROW(model.parameters().initialize(1, draw_normal), Error);
  EXPECT_THROW(model.mixer(4), Error);
  EXPECT_THROW(model.mechanism(4), Error);
}

TEST(Model, PartsThatItHasNotAreRefused) {
  ModelConfig config;
  config.family = Family::kPerceptron;
  config.head = HeadKind::kClassifier;
  config.inputs = config.classes = 3;
  Model perceptron(config);
  EXPECT_THROW(perceptron.mixer(0), Error);
  EXPECT_THROW(perceptron.mechanism(0), Error);
  EXPECT_THROW(perceptron.make_histories(1, 4), Error);
  EXPECT_THROW(perceptron.cache_bytes(1, 4), Error);
  ModelConfig mixed;
  mixed.family = Family::kEncoder;
  mixed.attention = "fnet";
  Model fourier(mixed);
  EXPECT_THROW(fourier.mechanism(0), Error);
  EXPECT_THROW(fourier.cache_bytes(1, 4), Error);
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

TEST(Model, OfPairsTakesTwoSequencesEach) {
  ModelConfig c;
  c.family = Family::kEncoder;
  c.head = HeadKind::kPairs;
  c.classes = 2;
  c.layers = 1;
  c.d_model = 8;
  c.vocab = 5;
  c.max_length = 4;
  const std::vector<std::int32_t> tokens = {0, 1, 2, 3, 4, 0};
  const std::vector<std::int32_t> targets = {1, 0};
  const std::span<const std::int32_t> one(targets.data(), 1);
  const auto of = [&](std::size_t batch, std::span<const std::int32_t> answers) {
    return batch_error(c, {.batch = batch,
                           .length = 2,
                           .tokens = std::span(tokens).first(2 * batch),
                           .targets = answers});
  };
  EXPECT_EQ(of(2, one), "");
  EXPECT_EQ(of(3, one), "[model] 3 sequences for a head of pairs; need an even number");
  EXPECT_EQ(of(2, targets), "[model] 2 targets for 1 rows of scores; need one of each row");
  EXPECT_THROW(Model(c).training_bytes({.batch = 3, .length = 2}), Error);
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
