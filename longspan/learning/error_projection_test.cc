// Equation 48, worked out again: what reaches the encoder is seen in its table of positions, which
// learns from the difference of the two embeddings and from nothing else.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>

#include "longspan/learning/pepita.h"
#include "longspan/testing/check_layer.h"

namespace longspan {
namespace error_projection_test {

using Rows = std::vector<std::vector<double>>;

constexpr std::size_t kBatch = 2;
constexpr std::size_t kSource = 5;
constexpr std::size_t kTarget = 4;
constexpr float kScale = 0.25F;

ModelConfig small() {
  ModelConfig c;
  c.family = Family::kEncoderDecoder;
  c.layers = 1;
  c.decoder_layers = 1;
  c.d_model = 8;
  c.heads = 2;
  c.vocab = 7;
  c.max_length = 6;
  c.shared_table = false;
  return c;
}

// The second source is padded, and so are both targets.
struct Data {
  std::vector<std::int32_t> source = {1, 6, 3, 3, 2, 5, 4, 1, 0, 0};
  std::vector<std::int32_t> source_lengths = {5, 3};
  std::vector<std::int32_t> tokens = {0, 2, 5, 0, 0, 6, 0, 0};
  std::vector<std::int32_t> targets = {2, 5, 0, -1, 6, 0, -1, -1};

  Batch view() const {
    return {.batch = kBatch,
            .length = kTarget,
            .tokens = tokens,
            .targets = targets,
            .source_length = kSource,
            .source = source,
            .source_lengths = source_lengths};
  }
};

Rows rows_of(ConstMatrix m) {
  Rows rows(m.rows);
  for (std::size_t i = 0; i < m.rows; ++i) rows[i].assign(m.row(i).begin(), m.row(i).end());
  return rows;
}

Rows values_of(Model& model, const char* name) {
  return rows_of(model.parameters().find(name)->matrix());
}

// a·b times a factor.
Rows product(const Rows& a, const Rows& b, double factor) {
  Rows y(a.size(), std::vector<double>(b.front().size(), 0.0));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = 0; k < b.size(); ++k) {
      for (std::size_t j = 0; j < y[i].size(); ++j) y[i][j] += factor * a[i][k] * b[k][j];
    }
  }
  return y;
}

// softmax(logits) − target, of the targets that count; a list for each sequence.
std::vector<Rows> errors(Model& model, const Batch& batch) {
  const Rows logits = rows_of(model.logits(batch));
  std::vector<Rows> all(batch.batch);
  for (std::size_t r = 0; r < logits.size(); ++r) {
    if (batch.targets[r] == kIgnoredTarget) continue;
    std::vector<double> e;
    double sum = 0.0;
    for (const double v : logits[r]) sum += std::exp(v);
    for (const double v : logits[r]) e.push_back(std::exp(v) / sum);
    e[static_cast<std::size_t>(batch.targets[r])] -= 1.0;
    all[r / batch.length].push_back(e);
  }
  return all;
}

// softmax(q·kᵀ/√w) of one row.
std::vector<double> weights(const std::vector<double>& q, const Rows& k) {
  std::vector<double> p;
  double sum = 0.0;
  for (const auto& row : k) {
    double score = 0.0;
    for (std::size_t i = 0; i < q.size(); ++i) score += q[i] * row[i];
    p.push_back(std::exp(score / std::sqrt(static_cast<double>(q.size()))));
    sum += p.back();
  }
  for (double& v : p) v /= sum;
  return p;
}

struct Reference {
  Rows encoder_table, decoder_table, positions;
  Rows f;  // empty: the error goes through the tables
  Feedback feedback;

  Rows through(const Rows& e, const Rows& table) const {
    return f.empty() ? product(e, table, feedback.scale) : product(e, f, 1.0);
  }
  // δ of one token of the source.
  std::vector<double> shift(std::size_t token, std::size_t position, const Rows& e) const {
    if (feedback.error_space == ErrorSpace::kVocabulary) {
      std::vector<double> one_hot(e.front().size(), 0.0);
      one_hot[token] = 1.0;
      return through(product({weights(one_hot, e)}, e, 1.0), encoder_table).front();
    }
    std::vector<double> x = encoder_table[token];
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += positions[position][i];
    const Rows image = through(e, decoder_table);
    // The scores are of the image of e itself, whatever the feedback's scale.
    const Rows unscaled =
        product(e, f.empty() ? decoder_table : f, f.empty() ? 1.0 : 1.0 / feedback.scale);
    return product({weights(x, unscaled)}, image, 1.0).front();
  }
};

template <class RuleKind>
void expect_projected(const Feedback& feedback) {
  Model model(small());
  model.allocate(1);
  testing::randomize(model.parameters(), 5);
  const Data data;
  const Batch batch = data.view();
  const std::vector<Rows> e = errors(model, batch);
  RuleKind rule(model, feedback, 3);
  const Reference reference{
      values_of(model, "embedding.tokens"), values_of(model, "decoder_embedding.tokens"),
      values_of(model, "embedding.positions"), rows_of(rule.projection()), feedback};
  rule.accumulate(batch, 7, kScale);
  const Matrix got = model.parameters().find("embedding.positions")->gradient_matrix();
  for (std::size_t i = 0; i < got.rows; ++i) {
    std::vector<double> want(got.cols, 0.0);
    for (std::size_t b = 0; b < kBatch; ++b) {
      if (i >= static_cast<std::size_t>(data.source_lengths[b])) continue;
      const auto token = static_cast<std::size_t>(data.source[b * kSource + i]);
      const std::vector<double> shift = reference.shift(token, i, e[b]);
      for (std::size_t k = 0; k < want.size(); ++k) want[k] -= kScale * shift[k];
    }
    for (std::size_t k = 0; k < want.size(); ++k) {
      EXPECT_NEAR(got.row(i)[k], want[k], 1e-6) << "position " << i << ", " << k;
    }
  }
  EXPECT_NE(got.row(0)[0], 0.0F);
}

TEST(ErrorProjection, IsEquation48InEitherSpace) {
  for (const char* space : {"vocabulary", "model"}) {
    for (const char* injection : {"input", "embedding"}) {
      SCOPED_TRACE(fmt::format("{} {}", space, injection));
      const Feedback feedback{.injection = injection, .error_space = space, .scale = 0.5F};
      expect_projected<Pepita>(feedback);
      expect_projected<Mempepita>(feedback);
    }
  }
}

// A source none of whose targets counts learns nothing, and neither does padding.
TEST(ErrorProjection, WithoutTargetsThereIsNone) {
  Model model(small());
  model.allocate(1);
  testing::randomize(model.parameters(), 5);
  Data data;
  data.targets = {2, 5, 0, 1, -1, -1, -1, -1};
  data.source_lengths = {1, 5};
  for (const char* space : {"vocabulary", "model"}) {
    std::ranges::fill(model.parameters().gradients(), 0.0F);
    Pepita(model, {.error_space = space}, 3).accumulate(data.view(), 7, kScale);
    const Matrix got = model.parameters().find("embedding.positions")->gradient_matrix();
    EXPECT_NE(got.row(0)[0], 0.0F) << space;
    for (std::size_t i = 1; i < got.rows; ++i) {
      for (const float g : got.row(i)) EXPECT_EQ(g, 0.0F) << space << ' ' << i;
    }
  }
}

}  // namespace error_projection_test
}  // namespace longspan
