// Weights in the layout of the products give what they gave before, and come back as they were.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/base/meter.h"
#include "longspan/models/model.h"
#include "longspan/testing/check_layer.h"
#include "longspan/testing/reference_cases.h"

namespace longspan {
namespace packed_model_test {

using testing::BatchData;
using testing::ModelCase;

std::vector<float> floats_of(ConstMatrix x) {
  std::vector<float> all;
  for (std::size_t i = 0; i < x.rows; ++i)
    all.insert(all.end(), x.row_data(i), x.row_data(i) + x.cols);
  return all;
}

class PackedModel : public ::testing::TestWithParam<ModelCase> {};

TEST_P(PackedModel, GivesWhatItGaveAndComesBack) {
  const ModelCase& c = GetParam();
  Model model(c.config);
  model.allocate(1, Purpose::kInference);
  std::vector<std::vector<float>> weights;
  for (const Parameter& p : model.parameters().all()) {
    weights.emplace_back(p.value.begin(), p.value.end());
  }
  const BatchData data(c.config, c.shape, 3);
  const std::vector<float> plain = floats_of(model.logits(data.view()));
  model.pack();
  const std::vector<float> packed = floats_of(model.logits(data.view()));
  ASSERT_EQ(packed.size(), plain.size());
  float largest = 0.0F;
  for (const float x : plain) largest = std::max(largest, std::abs(x));
  for (std::size_t i = 0; i < plain.size(); ++i) {
    ASSERT_NEAR(packed[i], plain[i], 2e-4F * largest) << i;
  }
  model.unpack();
  std::size_t next = 0;
  for (const Parameter& p : model.parameters().all()) {
    ASSERT_TRUE(std::ranges::equal(p.value, weights[next++])) << p.name;
  }
  EXPECT_EQ(floats_of(model.logits(data.view())), plain);
}

TEST_P(PackedModel, CountsAndTakesWhatTheDryOneSays) {
  const ModelCase& c = GetParam();
  Model model(c.config);
  model.pack();
  const BatchData data(c.config, c.shape, 3);
  const CostTable predicted = model.cost(data.view(), /*training=*/false);
  model.allocate(1, Purpose::kInference);
  model.pack();
  Meter meter;
  {
    const Meter::Use use(meter);
    model.evaluate(data.view());
  }
  std::uint64_t flops = 0;
  for (const auto& [layer, cost] : predicted) flops += cost.forward.flops();
  EXPECT_EQ(meter.total(Phase::kForward).flops(), flops);
  EXPECT_EQ(model.arena().peak(), model.inference_bytes(data.view()));
}

INSTANTIATE_TEST_SUITE_P(Cases, PackedModel, ::testing::ValuesIn(testing::model_cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Released, PackedModel, ::testing::ValuesIn(testing::released_cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Pairs, PackedModel, ::testing::ValuesIn(testing::pair_cases()),
                         [](const auto& instance) { return instance.param.name; });

void expect_untrainable(const Model& model, const char* sentence) {
  try {
    model.parameters().require_trainable("train");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), sentence);
  }
}

TEST(Packed, IsNotTrained) {
  ModelConfig config;
  config.layers = 1;
  config.d_model = 16;
  config.heads = 2;
  Model inferring(config);
  inferring.allocate(1, Purpose::kInference);
  expect_untrainable(inferring,
                     "[train] the weights have no gradients; allocate them for training");
  Model packed(config);
  packed.allocate(1);
  packed.pack();
  expect_untrainable(packed, "[train] the weights are packed for inference; unpack them first");
  packed.unpack();
  EXPECT_NO_THROW(packed.parameters().require_trainable("train"));
}

}  // namespace packed_model_test
}  // namespace longspan
