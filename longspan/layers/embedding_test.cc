#include "longspan/layers/embedding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longspan/base/error.h"
#include "longspan/testing/check_layer.h"
#include "longspan/testing/dry_branch.h"

namespace longspan {
namespace embedding_test {

using testing::Complex;
using testing::Tensor;
using testing::Weights;

struct Case {
  std::string name;
  EmbeddingConfig config;
  bool typed = false;
  std::size_t first = 0;
};

constexpr std::size_t kBatch = 2;
constexpr std::size_t kLength = 4;
constexpr std::size_t kWidth = 7;
const std::vector<std::int32_t> kTokens = {3, 0, 3, 5, 1, 3, 0, 2};
const std::vector<std::int32_t> kTypes = {0, 1, 1, 0, 2, 2, 0, 1};

EmbeddingConfig config_of(PositionKind positions) {
  return {.vocab = 6, .d_model = kWidth, .max_length = 9, .positions = positions};
}

std::vector<Case> cases() {
  EmbeddingConfig bert = config_of(PositionKind::kLearned);
  bert.token_types = 3;
  bert.norm = true;
  bert.epsilon = 0.01F;
  bert.padding_token = 3;
  EmbeddingConfig rms = config_of(PositionKind::kSinusoidal);
  rms.norm = true;
  rms.norm_kind = NormKind::kRms;
  rms.token_types = 2;
  rms.dropout = 0.3F;
  EmbeddingConfig narrow = bert;
  narrow.width = 4;
  EmbeddingConfig unbiased = config_of(PositionKind::kSinusoidalHalves);
  unbiased.width = 10;
  unbiased.projection_bias = false;
  unbiased.scaled = true;
  EmbeddingConfig tokens = narrow;
  tokens.projects_tokens = true;
  EmbeddingConfig first = bert;
  first.norm_first = true;
  first.norm_learns = {.scale = false, .shift = true};
  EmbeddingConfig all = tokens;
  all.norm_first = true;
  all.dropout = 0.2F;
  return {{"narrow", narrow, true},
          {"wide_unbiased", unbiased},
          {"projected_tokens", tokens, true},
          {"norm_first", first, true},
          {"projected_tokens_norm_first", all, false, 2},
          {"halves", config_of(PositionKind::kSinusoidalHalves), false, 1},
          {"none", config_of(PositionKind::kNone)},
          {"rotary", config_of(PositionKind::kRotary)},
          {"sinusoidal", config_of(PositionKind::kSinusoidal)},
          {"learned", config_of(PositionKind::kLearned), false, 5},
          {"bert", bert, true},
          {"bert_untyped", bert, false},
          {"rms_dropout", rms, false}};
}

class EmbeddingCases : public ::testing::TestWithParam<Case> {
 protected:
  EmbeddingCases() : c_(GetParam()), layer_(parameters_, "e", c_.config), arena_(1U << 16U) {
    parameters_.allocate();
    testing::randomize(parameters_, 1);
    weights_ = testing::weights_of(parameters_);
    pass_.batch = kBatch;
    pass_.length = kLength;
    pass_.typed = c_.typed;
    pass_.training = true;
    pass_.key = 9;
    input_.tokens = kTokens;
    if (c_.typed) input_.types = kTypes;
    input_.first_position = c_.first;
    layer_.allocate();
  }
  Tensor<Complex> reference(const Weights& w) const {
    const EmbeddingConfig& e = c_.config;
    const Tensor<Complex> table = w.get<Complex>("e.tokens");
    Tensor<Complex> x(kTokens.size(), table.cols);
    for (std::size_t i = 0; i < x.rows; ++i) {
      for (std::size_t j = 0; j < x.cols; ++j) {
        const Complex entry = table(static_cast<std::size_t>(kTokens[i]), j);
        x(i, j) = kTokens[i] == e.padding_token ? Complex(entry.real()) : entry;
        if (e.scaled) x(i, j) *= std::sqrt(static_cast<double>(kWidth));
      }
    }
    const bool projects = e.projection || table.cols != kWidth;
    const auto normed = [&](const Tensor<Complex>& y) {
      return testing::norm(w, "e.norm", e.norm_kind == NormKind::kRms ? "rms" : "layer",
                           static_cast<double>(e.epsilon), y);
    };
    if (projects && e.projects_tokens) x = testing::linear(w, "e.projection", x);
    if (e.norm && e.norm_first) x = normed(x);
    add_places(w, x);
    if (e.norm && !e.norm_first) x = normed(x);
    if (projects && !e.projects_tokens) x = testing::linear(w, "e.projection", x);
    return testing::drop(Dropout{e.dropout, derive(pass_.key, "embedding")}, x);
  }
  void add_places(const Weights& w, Tensor<Complex>& x) const {
    const EmbeddingConfig& e = c_.config;
    const std::size_t d = x.cols;
    for (std::size_t i = 0; i < x.rows; ++i) {
      const std::size_t p = c_.first + i % kLength;
      for (std::size_t j = 0; j < d; ++j) {
        if (e.positions == PositionKind::kLearned) x(i, j) += w.get<Complex>("e.positions")(p, j);
        if (e.positions == PositionKind::kSinusoidal) x(i, j) += testing::sinusoid(p, j, d);
        if (e.positions == PositionKind::kSinusoidalHalves) {
          const std::size_t sines = (d + 1) / 2;
          x(i, j) += testing::sinusoid(p, j < sines ? 2 * j : 2 * (j - sines) + 1, d);
        }
        const std::size_t type = c_.typed ? static_cast<std::size_t>(kTypes[i]) : 0;
        if (e.token_types > 0) x(i, j) += w.get<Complex>("e.types")(type, j);
      }
    }
  }
  Matrix rows(std::vector<float>& v) const { return {v.data(), kTokens.size(), kWidth}; }

  Case c_;
  Parameters parameters_;
  Embedding layer_;
  Weights weights_;
  Pass pass_;
  TokenInput input_;
  Arena arena_;
};

TEST_P(EmbeddingCases, MatchesTheReference) {
  layer_.check(pass_, input_);
  EmbeddingSaved saved;
  const Matrix embedded = layer_.embed(pass_, input_, &saved, arena_);
  const std::vector<float> x(embedded.data, embedded.data + embedded.size());
  std::vector<double> want;
  for (const Complex& v : reference(weights_).data) want.push_back(v.real());
  testing::expect_close(x, want, 2e-6, "x");

  const std::vector<float> dx = testing::random_values(x.size(), 4);
  const auto loss = [&](const Weights& w) {
    const Tensor<Complex> y = reference(w);
    Complex sum(0.0);
    for (std::size_t i = 0; i < dx.size(); ++i) sum += y.data[i] * static_cast<double>(dx[i]);
    return sum;
  };
  const auto run = [&] {
    std::vector<float> g = dx;
    layer_.backward(pass_, input_, saved, rows(g), arena_);
  };
  testing::expect_gradients(parameters_, weights_, run, loss, 12);
}

TEST_P(EmbeddingCases, DryIsWet) {
  testing::expect_dry_is_wet([&](Arena& arena) {
    EmbeddingSaved saved;
    const Matrix x = layer_.embed(pass_, input_, &saved, arena);
    layer_.backward(pass_, input_, saved, x, arena);
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, EmbeddingCases, ::testing::ValuesIn(cases()),
                         [](const auto& instance) { return instance.param.name; });

// Two embeddings on one table, as an encoder and its decoder have.
TEST(Embedding, SharesATable) {
  Parameters parameters;
  const EmbeddingConfig config = config_of(PositionKind::kLearned);
  const Embedding first(parameters, "a", config);
  const Embedding second(parameters, "b", config, first.table());
  EXPECT_EQ(first.table(), second.table());
  EXPECT_NE(parameters.find("a.positions"), nullptr);
  EXPECT_NE(parameters.find("b.positions"), nullptr);
  EXPECT_EQ(parameters.find("b.tokens"), nullptr);
}

TEST(Embedding, RefusesWhatIsOutsideItsTables) {
  Parameters parameters;
  EmbeddingConfig config = config_of(PositionKind::kLearned);
  config.token_types = 2;
  const Embedding layer(parameters, "e", config);
  Pass pass;
  pass.batch = 1;
  pass.length = 2;
  const auto error = [&](std::vector<std::int32_t> tokens, std::vector<std::int32_t> types,
                         std::size_t first) -> std::string {
    try {
      layer.check(pass, {tokens, types, first});
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(error({1, 5}, {0, 1}, 7), "");
  EXPECT_EQ(error({1}, {}, 0), "[embedding] 1 tokens; need 1 sequences of 2");
  EXPECT_EQ(error({1, 6}, {}, 0), "[embedding] token 6 is outside the vocabulary of 6");
  EXPECT_EQ(error({-1, 2}, {}, 0), "[embedding] token -1 is outside the vocabulary of 6");
  EXPECT_EQ(error({1, 2}, {}, 8), "[embedding] position 10 is asked for; the model has 9");
  EXPECT_EQ(error({1, 2}, {0}, 0), "[embedding] 1 token types for 2 tokens; need as many");
  EXPECT_EQ(error({1, 2}, {0, 2}, 0), "[embedding] token type 2; the model has 2");
}

}  // namespace embedding_test
}  // namespace longspan
