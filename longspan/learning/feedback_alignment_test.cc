// Feedback alignment: backpropagation where B = W, something else where it is not; and what PEPITA
// comes to in two layers.
#include "longspan/learning/feedback_alignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "longspan/learning/backprop.h"
#include "longspan/learning/pepita.h"
#include "longspan/testing/reference_cases.h"

namespace longspan {
namespace feedback_alignment_test {

using testing::BatchData;
using testing::ModelCase;

std::vector<float> gradients_of(Model& model, Rule& rule, const Batch& batch) {
  const auto gradients = model.parameters().gradients();
  std::ranges::fill(gradients, 0.0F);
  rule.accumulate(batch, 7, 0.25F);
  return {gradients.begin(), gradients.end()};
}

std::vector<ModelCase> cases() {
  std::vector<ModelCase> all;
  for (const auto& some :
       {testing::model_cases(), testing::expert_cases(), testing::perceptron_cases(),
        testing::frozen_cases(), testing::pair_cases()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

TEST(FeedbackAlignment, ThroughTheWeightsThemselvesIsBackpropagation) {
  for (const ModelCase& c : cases()) {
    SCOPED_TRACE(c.name);
    const BatchData data(c.config, c.shape, 3);
    Model model(c.config);
    model.allocate(1);
    Backprop exact(model);
    FeedbackAlignment rule(model, 5);
    const std::vector<float> want = gradients_of(model, exact, data.view());
    for (const FeedbackAlignment::Feedback& f : rule.feedbacks()) {
      std::ranges::copy(f.parameter->value, f.values.begin());
    }
    EXPECT_EQ(gradients_of(model, rule, data.view()), want);
  }
}

// Signals through the weights themselves, but through zeros behind one matrix.
std::vector<float> stopped_at(const FeedbackAlignment::Feedback& one, Model& model,
                              FeedbackAlignment& rule, const Batch& batch) {
  for (const FeedbackAlignment::Feedback& f : rule.feedbacks()) {
    std::ranges::copy(f.parameter->value, f.values.begin());
  }
  std::ranges::fill(one.values, 0.0F);
  return gradients_of(model, rule, batch);
}

TEST(FeedbackAlignment, ReplacesEveryMatrixOnTheWayBackAndForOneStepAlone) {
  for (const ModelCase& c : testing::model_cases()) {
    SCOPED_TRACE(c.name);
    const BatchData data(c.config, c.shape, 3);
    Model model(c.config);
    model.allocate(1);
    Backprop exact(model);
    FeedbackAlignment rule(model, 5);
    const std::vector<float> before = gradients_of(model, exact, data.view());
    std::size_t floats = 0;
    for (const FeedbackAlignment::Feedback& f : rule.feedbacks()) {
      floats += f.values.size();
      EXPECT_NE(stopped_at(f, model, rule, data.view()), before) << f.parameter->name;
    }
    EXPECT_EQ(rule.own_floats(), floats);
    EXPECT_EQ(gradients_of(model, exact, data.view()), before);
  }
}

TEST(FeedbackAlignment, ReplacesAdaptersToo) {
  ModelConfig c;
  c.layers = 2;
  c.d_model = 12;
  c.heads = 3;
  c.vocab = 13;
  c.max_length = 9;
  c.lora_rank = 3;
  const BatchData data(c, {.batch = 2, .length = 7}, 3);
  Model model(c);
  model.allocate(1);
  for (const Parameter& p : model.parameters().all()) {
    if (p.constant) continue;
    for (std::size_t i = 0; i < p.size(); ++i) p.value[i] = 0.1F * random_normal(9, i);
  }
  Backprop exact(model);
  FeedbackAlignment rule(model, 5);
  const std::vector<float> before = gradients_of(model, exact, data.view());
  for (const FeedbackAlignment::Feedback& f : rule.feedbacks()) {
    // Behind the projections of the first layer nothing is trained but their own A.
    const Parameter& p = *f.parameter;
    if (p.place.block != std::size_t{1} && !p.name.ends_with(".lora_b")) continue;
    EXPECT_NE(stopped_at(f, model, rule, data.view()), before) << p.name;
  }
}

TEST(FeedbackAlignment, CostsWhatBackpropagationDoes) {
  for (const ModelCase& c : testing::model_cases()) {
    SCOPED_TRACE(c.name);
    Model model(c.config);
    const BatchData data(c.config, c.shape, 3);
    const FeedbackAlignment rule(model, 5);
    EXPECT_EQ(rule.cost(data.view()), Backprop(model).cost(data.view()));
    EXPECT_EQ(rule.walk(data.view()).peak, Backprop(model).walk(data.view()).peak);
  }
}

// PEPITA in two layers (Srinivasan et al., 2023, arXiv:2302.05440). With h = f(z), z = x·W₁ᵀ, and the
// error e at the outputs of the second layer:
//
//   modulated pass   h' = f((x + e·F)·W₁ᵀ) = h + f'(z)⊙(e·F·W₁ᵀ) + O(F²)
//   PEPITA           ∇W₁ = (h − h')ᵀ·(x + e·F) = −(f'(z)⊙(e·F·W₁ᵀ))ᵀ·x + O(F²)
//   feedback         ∇W₁ = (f'(z)⊙(e·B))ᵀ·x
//
// so that PEPITA is feedback alignment with B = −F·W₁ᵀ, up to the second order in F.
TEST(FeedbackAlignment, IsWhatPepitaComesToInTwoLayers) {
  ModelConfig c;
  c.family = Family::kPerceptron;
  c.head = HeadKind::kClassifier;
  c.inputs = 23;
  c.classes = 7;
  c.d_model = 31;
  c.layers = 1;
  c.activation = Activation::kGelu;
  const BatchData data(c, {.batch = 17, .length = 1}, 3);
  double worse = 1.0;  // 1 − cosine at ten times the scale
  for (const float scale : {0.1F, 0.01F, 0.001F}) {
    Model model(c);
    model.allocate(1);
    FeedbackAlignment aligned(model, 5);
    Pepita pepita(model, {.last_layer = LastLayer::kStandardError, .scale = scale}, 5);
    const Parameter& w = *model.parameters().find("mlp.0.weight");
    const ConstMatrix f = pepita.projection();
    ASSERT_EQ(aligned.feedbacks().size(), 1U);
    const std::span<float> b = aligned.feedbacks().front().values;
    for (std::size_t o = 0; o < c.classes; ++o) {
      for (std::size_t h = 0; h < c.d_model; ++h) {
        double sum = 0.0;
        for (std::size_t i = 0; i < c.inputs; ++i) sum -= f.row(o)[i] * w.matrix().row(h)[i];
        b[o * c.d_model + h] = static_cast<float>(sum);
      }
    }
    gradients_of(model, pepita, data.view());
    const std::vector<float> theirs(w.gradient.begin(), w.gradient.end());
    gradients_of(model, aligned, data.view());
    double dot = 0.0;
    double ours2 = 0.0;
    double theirs2 = 0.0;
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      dot += static_cast<double>(w.gradient[i]) * theirs[i];
      ours2 += static_cast<double>(w.gradient[i]) * w.gradient[i];
      theirs2 += static_cast<double>(theirs[i]) * theirs[i];
    }
    const double angle = 1.0 - dot / std::sqrt(ours2 * theirs2);
    EXPECT_LT(angle, 0.1 * worse) << scale;
    EXPECT_NEAR(std::sqrt(ours2 / theirs2), 1.0, scale) << scale;
    worse = angle;
  }
  EXPECT_LT(worse, 1e-4);
}

}  // namespace feedback_alignment_test
}  // namespace longspan
