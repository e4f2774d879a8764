#include "longspan/layers/linear.h"

#include <gtest/gtest.h>

#include "longspan/testing/check_layer.h"
#include "longspan/testing/dry_branch.h"

namespace longspan {
namespace linear_test {

using testing::Complex;
using testing::Tensor;
using testing::Weights;

struct Shape {
  std::size_t rows;
  std::size_t in;
  std::size_t out;
  bool bias;
};

class LinearShapes : public ::testing::TestWithParam<Shape> {};

TEST_P(LinearShapes, MatchesTheReference) {
  const Shape& shape = GetParam();
  const std::size_t rows = shape.rows;
  const std::size_t in = shape.in;
  const std::size_t out = shape.out;
  Parameters parameters;
  const Linear layer(parameters, "layer", in, out, shape.bias, 0.02F);
  parameters.allocate();
  testing::randomize(parameters, 1);
  std::vector<float> x = testing::random_values(rows * in, 2);
  std::vector<float> dy = testing::random_values(rows * out, 3);
  Weights weights = testing::weights_of(parameters);
  weights.set("x", rows, in, x);

  std::vector<float> y(rows * out);
  layer.forward({x.data(), rows, in}, {y.data(), rows, out});
  const auto reference = [&](const Weights& w) {
    return testing::linear(w, "layer", w.get<Complex>("x"));
  };
  std::vector<double> want;
  for (const Complex& v : reference(weights).data) want.push_back(v.real());
  testing::expect_close(y, want, 2e-6, "y");

  const auto loss = [&](const Weights& w) {
    const Tensor<Complex> values = reference(w);
    Complex sum(0.0);
    for (std::size_t i = 0; i < dy.size(); ++i) {
      sum += values.data[i] * static_cast<double>(dy[i]);
    }
    return sum;
  };
  std::vector<float> dx(rows * in);
  layer.backward({dy.data(), rows, out}, {dx.data(), rows, in});
  testing::expect_gradient("x", dx, weights, loss, 12);
  std::vector<float> twice = dx;
  layer.backward({dy.data(), rows, out}, {twice.data(), rows, in}, /*add=*/true);
  std::vector<double> doubled;
  for (const float v : dx) doubled.push_back(2.0 * static_cast<double>(v));
  testing::expect_close(twice, doubled, 2e-6, "dx +=");
  testing::expect_gradients(
      parameters, weights,
      [&] {
        layer.accumulate({x.data(), rows, in}, {dy.data(), rows, out});
      },
      loss, 12);
}

TEST_P(LinearShapes, CostIsMetered) {
  const Shape& shape = GetParam();
  const std::size_t rows = shape.rows;
  const std::size_t in = shape.in;
  const std::size_t out = shape.out;
  Parameters parameters;
  const Linear layer(parameters, "layer", in, out, shape.bias, 0.02F);
  parameters.allocate();
  std::vector<float> x(rows * in);
  std::vector<float> y(rows * out);
  const auto phase = [&](Phase p, const auto& body) {
    const Place::Scope scope("layer", p);
    body();
  };
  const CostTable table = testing::expect_dry_is_wet([&](Arena&) {
    phase(Phase::kForward, [&] { layer.forward({x.data(), rows, in}, {y.data(), rows, out}); });
    phase(Phase::kBackward, [&] { layer.backward({y.data(), rows, out}, {x.data(), rows, in}); });
    phase(Phase::kUpdate, [&] { layer.accumulate({x.data(), rows, in}, {y.data(), rows, out}); });
  });
  const Cost& cost = table.at("layer");
  EXPECT_EQ(cost.backward.maccs, rows * in * out);
  EXPECT_EQ(cost.update.maccs, rows * in * out);
  EXPECT_EQ(cost.forward.maccs, rows * in * out);
  EXPECT_EQ(cost.forward.other_flops(), shape.bias ? rows * out : 0);
  EXPECT_EQ(cost.backward.other_flops(), 0U);
  EXPECT_EQ(cost.update.other_flops(), shape.bias ? rows * out : 0);
}

INSTANTIATE_TEST_SUITE_P(Shapes, LinearShapes,
                         ::testing::Values(Shape{1, 1, 1, true}, Shape{1, 7, 3, false},
                                           Shape{5, 17, 9, true}, Shape{33, 13, 31, true},
                                           Shape{65, 8, 17, false}));

// A tied weight receives the gradients of both its users.
TEST(Linear, TiedWeightIsOneParameter) {
  Parameters parameters;
  Parameter& table = parameters.declare("table", 5, 3, Initializer::zeros());
  const Linear layer(parameters, "layer", table, /*bias=*/true);
  ASSERT_EQ(parameters.all().size(), 2U);
  EXPECT_EQ(parameters.all().back().name, "layer.bias");
  EXPECT_EQ(layer.in(), 3U);
  EXPECT_EQ(layer.out(), 5U);
}

}  // namespace linear_test
}  // namespace longspan
