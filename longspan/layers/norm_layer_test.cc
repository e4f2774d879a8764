#include <gtest/gtest.h>

#include "longspan/layers/norm.h"
#include "longspan/testing/check_layer.h"
#include "longspan/testing/dry_branch.h"

namespace longspan {
namespace norm_layer_test {

using testing::Complex;
using testing::Tensor;
using testing::Weights;

struct Case {
  std::string name;
  NormKind kind;
  std::size_t rows;
  std::size_t d;
  float epsilon;
};

class NormCases : public ::testing::TestWithParam<Case> {
 protected:
  NormCases()
      : c_(GetParam()),
        norm_(parameters_, "norm", c_.kind, c_.d, c_.epsilon),
        x_(testing::random_values(c_.rows * c_.d, 2)),
        dy_(testing::random_values(c_.rows * c_.d, 3)) {
    parameters_.allocate();
    testing::randomize(parameters_, 1);
    weights_ = testing::weights_of(parameters_);
    weights_.set("x", c_.rows, c_.d, x_);
  }
  Matrix rows(std::vector<float>& v) const { return {v.data(), c_.rows, c_.d}; }
  Tensor<Complex> reference(const Weights& w) const {
    return testing::norm(w, "norm", c_.kind == NormKind::kLayer ? "layer" : "rms",
                         static_cast<double>(c_.epsilon), w.get<Complex>("x"));
  }
  Complex loss(const Weights& w) const {
    Complex sum(0.0);
    const Tensor<Complex> y = reference(w);
    for (std::size_t i = 0; i < dy_.size(); ++i) sum += y.data[i] * static_cast<double>(dy_[i]);
    return sum;
  }

  Case c_;
  Parameters parameters_;
  Norm norm_;
  std::vector<float> x_;
  std::vector<float> dy_;
  Weights weights_;
};

TEST_P(NormCases, MatchesTheReference) {
  Arena arena(1U << 20U);
  const Norm::Saved saved = norm_.save(c_.rows, arena);
  EXPECT_EQ(arena.used(), Arena::bytes_for(c_.rows * c_.d) + Arena::bytes_for(c_.rows));
  std::vector<float> y(x_.size());
  norm_.forward(rows(x_), rows(y), saved);
  std::vector<double> want;
  for (const Complex& v : reference(weights_).data) want.push_back(v.real());
  testing::expect_close(y, want, 3e-6, "y");
  std::vector<float> in_place = x_;
  norm_.forward(rows(in_place), rows(in_place), {});
  EXPECT_EQ(in_place, y) << "in place, nothing saved";

  const auto of = [this](const Weights& w) { return loss(w); };
  std::vector<float> dx(x_.size());
  norm_.backward(saved, rows(dy_), rows(dx), /*add=*/false);
  // One column: LayerNorm's output is constant, its derivative rounding of zero.
  if (c_.d > 1 || c_.kind == NormKind::kRms) testing::expect_gradient("x", dx, weights_, of, 16);
  std::vector<float> spoiled = dy_;
  norm_.backward(saved, rows(spoiled), rows(spoiled), /*add=*/false);
  EXPECT_EQ(spoiled, dx) << "in place";
  std::vector<float> added = dy_;
  norm_.backward(saved, rows(dy_), rows(added), /*add=*/true);
  for (std::size_t i = 0; i < dx.size(); ++i) EXPECT_NEAR(added[i], dy_[i] + dx[i], 1e-5F) << i;
  testing::expect_gradients(
      parameters_, weights_, [&] { norm_.accumulate(saved, rows(dy_)); }, of, 12);
}

TEST_P(NormCases, CostIsMetered) {
  std::vector<float> y(x_.size());
  const CostTable table = testing::expect_dry_is_wet([&](Arena& arena) {
    const Norm::Saved saved = norm_.save(c_.rows, arena);
    const Place::Scope forward("norm", Phase::kForward);
    norm_.forward(rows(x_), rows(y), saved);
    const Place::Scope backward("norm", Phase::kBackward);
    norm_.backward(saved, rows(dy_), rows(y), /*add=*/false);
    const Place::Scope update("norm", Phase::kUpdate);
    norm_.accumulate(saved, rows(dy_));
  });
  const Cost& cost = table.at("norm");
  const bool layer = c_.kind == NormKind::kLayer;
  EXPECT_EQ(cost.forward.flops(), c_.rows * (layer ? 7 * c_.d + 5 : 4 * c_.d + 4));
  EXPECT_EQ(cost.backward.flops(), c_.rows * (layer ? 8 * c_.d + 2 : 6 * c_.d + 1));
  EXPECT_EQ(cost.update.flops(), c_.rows * (layer ? 3 * c_.d : 2 * c_.d));
}

INSTANTIATE_TEST_SUITE_P(Cases, NormCases,
                         ::testing::Values(Case{"layer_one", NormKind::kLayer, 1, 1, 1e-3F},
                                           Case{"layer", NormKind::kLayer, 7, 17, 1e-5F},
                                           Case{"layer_wide", NormKind::kLayer, 3, 129, 0.1F},
                                           Case{"rms_one", NormKind::kRms, 1, 1, 0.5F},
                                           Case{"rms", NormKind::kRms, 5, 13, 1e-6F},
                                           Case{"rms_wide", NormKind::kRms, 33, 65, 0.1F}),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace norm_layer_test
}  // namespace longspan
