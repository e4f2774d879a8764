#include "longspan/base/parameter.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longspan/base/error.h"

namespace longspan {
namespace parameter_test {

void draw_normal(RandomKey key, float deviation, std::span<float> to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = deviation * random_normal(key, i);
}

TEST(Parameters, MatricesComeFirst) {
  Parameters parameters;
  const Parameter& bias = parameters.declare("bias", 3, Initializer::zeros());
  const Parameter& weight = parameters.declare("weight", 2, 5, Initializer::zeros());
  const Parameter& scale = parameters.declare("scale", 4, Initializer::ones());
  const Parameter& row = parameters.declare("row", 1, 6, Initializer::zeros());
  EXPECT_EQ(parameters.count(), 3U + 10 + 4 + 6);
  EXPECT_EQ(parameters.matrix_count(), 16U) << "a matrix of one row is a matrix";
  EXPECT_FALSE(parameters.allocated());
  EXPECT_EQ(weight.value.size(), 10U) << "an address that nobody can read";
  EXPECT_NE(weight.value.data(), bias.value.data());
  parameters.allocate();
  EXPECT_TRUE(parameters.allocated());
  const float* values = parameters.values().data();
  const float* gradients = parameters.gradients().data();
  EXPECT_EQ(weight.value.data(), values);
  EXPECT_EQ(row.value.data(), values + 10);
  EXPECT_EQ(bias.value.data(), values + 16);
  EXPECT_EQ(scale.value.data(), values + 19);
  EXPECT_EQ(scale.gradient.data(), gradients + 19);
  EXPECT_EQ(weight.gradient.size(), 10U);
  EXPECT_EQ(weight.shape(), (std::vector<std::size_t>{2, 5}));
  EXPECT_EQ(bias.shape(), (std::vector<std::size_t>{3}));
  EXPECT_EQ(row.shape(), (std::vector<std::size_t>{1, 6}));
  EXPECT_EQ(weight.matrix().rows, 2U);
  EXPECT_EQ(weight.gradient_matrix().cols, 5U);
}

TEST(Parameters, NamesAreUnique) {
  Parameters parameters;
  parameters.declare("weight", 2, 5, Initializer::zeros());
  try {
    parameters.declare("weight", 3, Initializer::zeros());
    FAIL() << "accepted twice";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "[parameters] 'weight' is declared twice; names must differ");
  }
  EXPECT_EQ(parameters.count(), 10U);
  EXPECT_NE(parameters.find("weight"), nullptr);
  EXPECT_EQ(parameters.find("weigh"), nullptr);
}

TEST(Parameters, SizesThatWouldWrapAreRefused) {
  Parameters parameters;
  parameters.declare("usual", 2, 5, Initializer::zeros());
  const std::size_t huge = (std::size_t{1} << 61U) + 1;
  EXPECT_THROW(parameters.declare("matrix", huge, 8, Initializer::zeros()), Error);
  EXPECT_THROW(parameters.declare("vector", huge, Initializer::zeros()), Error);
  EXPECT_THROW(parameters.declare_constant("constant", huge, huge, nullptr), Error);
  // Each may be, all of them may not.
  const std::size_t half = Parameters::kMostWeights / 2;
  parameters.declare("first", half, Initializer::zeros());
  EXPECT_THROW(parameters.declare("second", half, Initializer::zeros()), Error);
  EXPECT_EQ(parameters.count(), half + 10);
  EXPECT_EQ(parameters.all().size(), 2U);
  try {
    parameters.allocate();
    FAIL() << "allocated";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("are available: use a smaller model"), std::string::npos)
        << e.what();
  }
}

TEST(Parameters, AreNotUsedBeforeTheyHaveMemory) {
  Parameters parameters;
  parameters.require_allocated("test");  // there are none
  parameters.declare("weight", 2, 5, Initializer::ones());
  EXPECT_THROW(parameters.require_allocated("test"), Error);
  EXPECT_THROW(parameters.initialize(1, draw_normal), Error);
  parameters.allocate();
  parameters.require_allocated("test");
}

std::vector<float> initial_values(bool other_first, RandomKey seed) {
  Parameters parameters;
  if (other_first) parameters.declare("other", 7, 3, Initializer::normal(1.0F));
  const Parameter& weight = parameters.declare("weight", 300, 257, Initializer::normal(0.02F));
  if (!other_first) parameters.declare("other", 7, 3, Initializer::normal(1.0F));
  parameters.allocate();
  parameters.initialize(seed, draw_normal);
  return {weight.value.begin(), weight.value.end()};
}

TEST(Parameters, InitialValuesDependOnNameAndSeedAlone) {
  const std::vector<float> values = initial_values(false, 1);
  EXPECT_EQ(values, initial_values(true, 1));
  EXPECT_NE(values, initial_values(false, 2));
  double square = 0.0;
  for (const float v : values) square += static_cast<double>(v) * v;
  const auto count = static_cast<double>(values.size());
  EXPECT_NEAR(std::sqrt(square / count), 0.02, 0.02 * 5 / std::sqrt(2 * count));
}

TEST(Parameters, InitializersFill) {
  Parameters parameters;
  const Parameter& ones = parameters.declare("ones", 3, Initializer::ones());
  const Parameter& zeros = parameters.declare("zeros", 3, Initializer::zeros());
  parameters.allocate();
  std::ranges::fill(parameters.values(), 7.0F);
  parameters.initialize(1, draw_normal);
  for (const float v : ones.value) EXPECT_EQ(v, 1.0F);
  for (const float v : zeros.value) EXPECT_EQ(v, 0.0F);
}

}  // namespace parameter_test
}  // namespace longspan
