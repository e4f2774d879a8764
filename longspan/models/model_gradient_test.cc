// Whole models against the reference: the loss, the logits and a sample of every parameter's
// gradient, for every family and wiring.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "longspan/models/model.h"
#include "longspan/testing/check_layer.h"
#include "longspan/testing/reference_cases.h"
#include "longspan/testing/reference_model.h"

namespace longspan {
namespace model_gradient_test {

using testing::BatchData;
using testing::Complex;
using testing::ModelCase;
using testing::ReferenceModel;
using testing::Weights;

constexpr RandomKey kDropoutKey = 12345;

class ModelGradient : public ::testing::TestWithParam<ModelCase> {
 protected:
  ModelGradient() : model_(GetParam().config), data_(GetParam().config, GetParam().shape, 7) {
    model_.allocate(1);
    testing::randomize(model_.parameters(), 3);
    weights_ = testing::weights_of(model_.parameters());
  }
  Model model_;
  BatchData data_;
  Weights weights_;
};

TEST_P(ModelGradient, LogitsAreTheReferences) {
  const Batch batch = data_.view();
  const auto want = ReferenceModel<double>(GetParam().config, weights_, batch, false).logits();
  const ConstMatrix got = model_.logits(batch);
  ASSERT_EQ(got.rows, want.rows);
  ASSERT_EQ(got.cols, want.cols);
  testing::expect_close({got.data, got.size()}, want.data, 5e-6, "logits");
}

TEST_P(ModelGradient, ReferenceReadsEveryParameter) {
  const Batch batch = data_.view();
  (void)ReferenceModel<double>(GetParam().config, weights_, batch).loss();
  std::set<std::string> declared;
  for (const Parameter& p : model_.parameters().all()) declared.insert(p.name);
  EXPECT_EQ(weights_.read(), declared);
}

TEST_P(ModelGradient, LossAndEvaluationAreTheReferences) {
  const Batch batch = data_.view();
  const ModelConfig& config = GetParam().config;
  const double trained = ReferenceModel<double>(config, weights_, batch, true, kDropoutKey).loss();
  const double evaluated = ReferenceModel<double>(config, weights_, batch, false).loss();
  const LossSum loss = model_.forward(batch, kDropoutKey, 0.7F);
  EXPECT_NEAR(loss.loss, trained, 2e-6 * std::abs(trained));
  EXPECT_EQ(loss.counted, model_.loss().count(batch));
  const LossSum evaluation = model_.evaluate(batch);
  EXPECT_NEAR(evaluation.loss, evaluated, 2e-6 * std::abs(evaluated));
  if (config.dropout > 0.0F) {
    EXPECT_GT(std::abs(trained - evaluated), 1e-3);
  }
}

TEST_P(ModelGradient, EveryParameterMatchesTheComplexStep) {
  const Batch batch = data_.view();
  constexpr float kScale = 0.37F;
  const auto run = [&] {
    model_.forward(batch, kDropoutKey, kScale);
    model_.backward(batch, kScale);
  };
  const auto loss = [&](const Weights& weights) {
    return testing::reference_loss<Complex>(GetParam().config, weights, batch, kDropoutKey,
                                            static_cast<double>(kScale));
  };
  testing::expect_gradients(model_.parameters(), weights_, run, loss);
}

INSTANTIATE_TEST_SUITE_P(Cases, ModelGradient, ::testing::ValuesIn(testing::model_cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Released, ModelGradient, ::testing::ValuesIn(testing::released_cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Pairs, ModelGradient, ::testing::ValuesIn(testing::pair_cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Students, ModelGradient, ::testing::ValuesIn(testing::student_cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Experts, ModelGradient, ::testing::ValuesIn(testing::expert_cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Stages, ModelGradient, ::testing::ValuesIn(testing::staged_cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Perceptrons, ModelGradient,
                         ::testing::ValuesIn(testing::perceptron_cases()),
                         [](const auto& instance) { return instance.param.name; });

// A field with the same value in all cases would be a field that nothing here tests.
TEST(ModelCases, GiveEveryFieldTwoValues) {
  std::map<std::string, std::set<std::string>> values;
  std::vector<ModelCase> all = testing::model_cases();
  // Those learn in part; their gradients are compared in learning/frozen_test.cc.
  std::ranges::copy(testing::frozen_cases(), std::back_inserter(all));
  std::ranges::copy(testing::perceptron_cases(), std::back_inserter(all));
  std::ranges::copy(testing::expert_cases(), std::back_inserter(all));
  std::ranges::copy(testing::staged_cases(), std::back_inserter(all));
  std::ranges::copy(testing::pair_cases(), std::back_inserter(all));
  std::ranges::copy(testing::released_cases(), std::back_inserter(all));
  for (ModelCase& c : all) {
    c.config.visit([&](std::string_view name, auto& field) {
      values[std::string(name)].insert(fmt::format("{}", field));
    });
  }
  // How weights start and how long a sequence may be do not enter the function; numbers that are
  // stored beside the weights are counted alone (cost/count_parameters.cc).
  const std::set<std::string> elsewhere = {"init_deviation", "max_length", "stored_numbers",
                                           "vocab"};
  for (const auto& [name, seen] : values) {
    if (elsewhere.contains(name)) continue;
    EXPECT_GE(seen.size(), 2U) << name;
  }
}

}  // namespace model_gradient_test
}  // namespace longspan
