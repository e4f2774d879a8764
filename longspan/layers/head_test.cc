#include "longspan/layers/head.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longspan/base/error.h"
#include "longspan/testing/check_layer.h"
#include "longspan/testing/dry_branch.h"

namespace longspan {
namespace head_test {

using testing::Complex;
using testing::Tensor;
using testing::Weights;

struct Case {
  std::string name;
  HeadConfig config;
  std::vector<std::int32_t> lengths;
};

constexpr std::size_t kBatch = 4;
constexpr std::size_t kLength = 4;
constexpr std::size_t kWidth = 9;

HeadConfig config_of(std::optional<Pool> pool, bool transform, bool norm, bool bias) {
  return {.d_model = kWidth,
          .outputs = 7,
          .pool = pool,
          .transform = transform,
          .activation = Activation::kTanh,
          .transform_norm = norm,
          .norm_kind = NormKind::kLayer,
          .epsilon = 0.01F,
          .bias = bias};
}

HeadConfig pairs_of(Pool pool, std::size_t width) {
  HeadConfig config = config_of(pool, false, false, true);
  config.pair_width = width;
  return config;
}

Tensor<Complex> paired(const Weights& w, const Tensor<Complex>& x) {
  Tensor<Complex> y(x.rows / 2, 4 * x.cols);
  for (std::size_t i = 0; i < y.rows; ++i) {
    for (std::size_t j = 0; j < x.cols; ++j) {
      y(i, j) = x(2 * i, j);
      y(i, x.cols + j) = x(2 * i + 1, j);
      y(i, 2 * x.cols + j) = x(2 * i, j) * x(2 * i + 1, j);
      y(i, 3 * x.cols + j) = x(2 * i, j) - x(2 * i + 1, j);
    }
  }
  for (const char* layer : {"h.pair.first", "h.pair.second"}) {
    y = testing::linear(w, layer, y);
    for (Complex& v : y.data) v = testing::activation("relu", v);
  }
  return y;
}

// The options of released models, one changed at a time by `set`.
template <class Set>
Case with(const char* name, std::optional<Pool> pool, const Set& set) {
  Case c{name, config_of(pool, true, true, true), {}};
  set(c.config);
  return c;
}

class HeadCases : public ::testing::TestWithParam<Case> {
 protected:
  HeadCases()
      : c_(GetParam()),
        head_(parameters_, "h", c_.config, nullptr),
        x_(testing::random_values(kBatch * kLength * kWidth, 2)),
        arena_(1U << 18U) {
    parameters_.allocate();
    testing::randomize(parameters_, 1);
    weights_ = testing::weights_of(parameters_);
    weights_.set("x", kBatch * kLength, kWidth, x_);
    pass_.batch = kBatch;
    pass_.length = kLength;
    pass_.lengths = c_.lengths;
    const std::size_t outputs = c_.config.outputs == 0 ? head_.width() : c_.config.outputs;
    dy_ = testing::random_values(head_.rows(pass_) * outputs, 3);
  }
  Tensor<Complex> reference(const Weights& w) const {
    Tensor<Complex> x = w.get<Complex>("x");
    if (c_.config.pool) {
      Tensor<Complex> pooled(kBatch, kWidth);
      for (std::size_t b = 0; b < kBatch; ++b) {
        std::size_t count = c_.lengths.empty() ? kLength : static_cast<std::size_t>(c_.lengths[b]);
        if (c_.config.pool == Pool::kFirst || count == 0) count = 1;
        for (std::size_t i = 0; i < count; ++i) {
          for (std::size_t j = 0; j < kWidth; ++j) {
            pooled(b, j) += x(b * kLength + i, j) / static_cast<double>(count);
          }
        }
      }
      x = pooled;
    }
    if (c_.config.pair_width > 0) x = paired(w, x);
    if (c_.config.transform) {
      x = testing::linear(w, "h.transform", x);
      for (Complex& v : x.data) {
        if (c_.config.transform_activates)
          v = testing::activation(name_of(c_.config.activation), v);
      }
      if (c_.config.transform_norm) x = testing::norm(w, "h.norm", "layer", 0.01F, x);
    }
    for (Complex& v : x.data) v *= static_cast<double>(c_.config.scale);
    if (c_.config.outputs == 0) return x;
    x = testing::linear(w, "h.output", x);
    const Tensor<Complex> constant = w.get_if<Complex>("h.output.constant");
    const auto cap = static_cast<double>(c_.config.cap);
    for (std::size_t i = 0; i < x.data.size(); ++i) {
      if (constant.cols > 0) x.data[i] += constant(0, i % x.cols);
      if (cap > 0.0) x.data[i] = cap * std::tanh(x.data[i] / cap);
    }
    return x;
  }
  Complex loss(const Weights& w) const {
    const Tensor<Complex> y = reference(w);
    Complex sum(0.0);
    for (std::size_t i = 0; i < dy_.size(); ++i) sum += y.data[i] * static_cast<double>(dy_[i]);
    return sum;
  }
  Matrix rows(std::vector<float>& v) const { return {v.data(), kBatch * kLength, kWidth}; }

  Case c_;
  Parameters parameters_;
  Head head_;
  std::vector<float> x_;
  std::vector<float> dy_;
  Weights weights_;
  Pass pass_;
  Arena arena_;
};

TEST_P(HeadCases, MatchesTheReference) {
  const Head::Saved free = head_.forward(pass_, rows(x_), /*saves=*/false, arena_);
  const std::vector<float> inferred(free.logits.data, free.logits.data + free.logits.size());
  std::vector<double> want;
  for (const Complex& v : reference(weights_).data) want.push_back(v.real());
  testing::expect_close(inferred, want, 3e-6, "logits");

  std::vector<float> dx(x_.size());
  const auto run = [&] {
    const Arena::Frame frame(arena_);
    const Head::Saved saved = head_.forward(pass_, rows(x_), /*saves=*/true, arena_);
    EXPECT_TRUE(std::equal(inferred.begin(), inferred.end(), saved.logits.data));
    std::ranges::copy(dy_, saved.logits.data);
    std::ranges::fill(dx, 5.0F);
    head_.backward(pass_, saved, rows(dx), arena_);
  };
  const auto of = [this](const Weights& w) { return loss(w); };
  testing::expect_gradients(parameters_, weights_, run, of, 12);
  testing::expect_gradient("x", dx, weights_, of, 24);
}

TEST_P(HeadCases, DryIsWet) {
  std::vector<float> dx(x_.size());
  for (const bool saves : {true, false}) {
    testing::expect_dry_is_wet([&](Arena& arena) {
      const Head::Saved saved = head_.forward(pass_, rows(x_), saves, arena);
      if (saves) head_.backward(pass_, saved, rows(dx), arena);
    });
  }
}

TEST(Head, OfPairsHasNoTransform) {
  Parameters parameters;
  HeadConfig config = pairs_of(Pool::kMean, 8);
  config.transform = true;
  EXPECT_THROW(Head(parameters, "h", config, nullptr), Error);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, HeadCases,
    ::testing::Values(Case{"lm", config_of(std::nullopt, false, false, false), {}},
                      Case{"lm_transform", config_of(std::nullopt, true, false, true), {}},
                      Case{"lm_transform_norm", config_of(std::nullopt, true, true, true), {}},
                      Case{"first", config_of(Pool::kFirst, false, false, true), {2, 4, 1, 3}},
                      Case{"first_transform", config_of(Pool::kFirst, true, true, false), {}},
                      Case{"mean", config_of(Pool::kMean, false, false, true), {}},
                      Case{"mean_lengths", config_of(Pool::kMean, true, false, true), {3, 0, 1, 4}},
                      Case{"pairs", pairs_of(Pool::kMean, 21), {3, 0, 1, 4}},
                      Case{"pairs_first", pairs_of(Pool::kFirst, 16), {}},
                      Case{"pairs_narrow", pairs_of(Pool::kMean, 5), {}},
                      with("narrow", std::nullopt, [](HeadConfig& c) { c.width = 5; }),
                      with("matrix", std::nullopt,
                           [](HeadConfig& c) {
                             c.transform_bias = c.transform_activates = false;
                             c.width = 12;
                           }),
                      with("constant", Pool::kMean, [](HeadConfig& c) { c.constant_bias = true; }),
                      with("scaled", std::nullopt, [](HeadConfig& c) { c.scale = 0.25F; }),
                      with("capped", std::nullopt, [](HeadConfig& c) { c.cap = 0.7F; }),
                      with("scaled_and_capped", Pool::kFirst,
                           [](HeadConfig& c) {
                             c.transform = c.transform_norm = false;
                             c.scale = 1.5F;
                             c.cap = 2.0F;
                             c.constant_bias = true;
                             c.bias = false;
                           }),
                      with("states", std::nullopt,
                           [](HeadConfig& c) {
                             c.outputs = 0;
                             c.transform = c.transform_norm = c.bias = false;
                           }),
                      with("states_pooled", Pool::kFirst,
                           [](HeadConfig& c) {
                             c.outputs = 0;
                             c.width = 4;
                             c.norm_learns = {.scale = true, .shift = false};
                           })),
    [](const auto& instance) { return instance.param.name; });

}  // namespace head_test
}  // namespace longspan
