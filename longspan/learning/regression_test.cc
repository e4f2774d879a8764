// A loss of numbers through model, rules and trainer, none of which knows it.
#include <gtest/gtest.h>

#include <vector>

#include "longspan/base/random.h"
#include "longspan/learning/trainer.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace regression_test {

// y_0 = x_0 + 2·x_1, y_1 = −x_2.
struct Line {
  explicit Line(std::uint64_t step) {
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t i = 0; i < 3; ++i) {
        features.push_back(random_normal(derive(5, step), 3 * row + i));
      }
      const float* const x = features.data() + 3 * row;
      values.insert(values.end(), {x[0] + 2.0F * x[1], -x[2]});
    }
  }
  Batch batch() const {
    return {.batch = kRows, .length = 1, .features = features, .values = values};
  }

  static constexpr std::size_t kRows = 32;
  std::vector<float> features;
  std::vector<float> values;
};

ModelConfig regressor() {
  ModelConfig c;
  c.family = Family::kPerceptron;
  c.head = HeadKind::kClassifier;
  c.loss = "squared-error";
  c.inputs = 3;
  c.classes = 2;
  c.d_model = 32;
  c.layers = 1;
  c.activation = Activation::kRelu;
  c.head_bias = true;
  return c;
}

double mean_error(const char* rule, std::uint64_t steps) {
  Model model(regressor());
  model.allocate(1);
  TrainConfig t;
  t.rule = rule;
  t.optimizer.kind = "adam";
  t.schedule = {.kind = "constant", .peak = 0.01F, .floor = 0.01F, .warmup = 0, .total = steps};
  Trainer trainer(model, t);
  for (std::uint64_t step = 0; step < steps; ++step) {
    const Line line(step);
    const Batch batch = line.batch();
    const StepReport report = trainer.step({&batch, 1});
    EXPECT_TRUE(report.finite);
  }
  const Line held_out(1U << 20U);
  const LossSum sum = model.evaluate(held_out.batch());
  EXPECT_EQ(sum.counted, 2 * Line::kRows);
  return sum.loss / static_cast<double>(sum.counted);
}

TEST(Regression, IsLearnt) {
  const double before = mean_error("bp", 0);
  EXPECT_GT(before, 0.5);
  EXPECT_LT(mean_error("bp", 400), 0.02 * before);
}

TEST(Regression, IsCountedAndBookedLikeAnyStep) {
  Model model(regressor());
  model.allocate(1);
  const Line line(0);
  const Batch shape{.batch = Line::kRows, .length = 1};
  for (const RuleEntry& entry : rules()) {
    const auto rule = make_rule(entry.name, model);
    rule->accumulate(line.batch(), 1, 0.5F);
    EXPECT_EQ(model.arena().peak(), rule->walk(shape).peak) << entry.name;
  }
}

TEST(Regression, NeedsAHeadOfNumbers) {
  ModelConfig c;
  c.loss = "squared-error";
  EXPECT_EQ(testing::message_of([&] { Model model(c); }),
            "[model] the loss squared-error of a language model; need a classifier or tagger head");
}

}  // namespace regression_test
}  // namespace longspan
