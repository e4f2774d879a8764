// Rules whose signal comes through random matrices: what is before the last layer learns from it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "longspan/base/parallel.h"
#include "longspan/learning/direct_feedback.h"
#include "longspan/learning/feedback_alignment.h"
#include "longspan/learning/trainer.h"
#include "longspan/testing/reference_cases.h"

namespace longspan {
namespace feedback_training_test {

using testing::BatchData;
using testing::BatchShape;

ModelConfig small(const char* family) {
  ModelConfig c;
  c.family = family;
  c.layers = 2;
  c.d_model = 24;
  c.heads = 2;
  c.vocab = 17;
  c.max_length = 16;
  c.wiring = Wiring::kPostNorm;
  c.tied = false;
  return c;
}

ModelConfig classifier(const char* family) {
  ModelConfig c = small(family);
  c.head = HeadKind::kClassifier;
  c.classes = 5;
  c.inputs = 11;
  return c;
}

void silence(Rule& rule, std::size_t blocks) {
  if (const auto* direct = dynamic_cast<DirectFeedback*>(&rule)) {
    for (std::size_t i = 0; i < blocks; ++i) {
      const Matrix b = direct->projection(i);
      std::fill_n(b.data, b.size(), 0.0F);
    }
    return;
  }
  for (const auto& f : dynamic_cast<FeedbackAlignment&>(rule).feedbacks()) {
    std::ranges::fill(f.values, 0.0F);
  }
}

// The loss on one batch after 150 steps, by the first.
double learnt_from(const ModelConfig& c, const char* rule, bool silent, BatchShape shape,
                   RandomKey seed) {
  BatchData data(c, shape, 3);
  if (c.head == HeadKind::kLanguage) {  // the token before, which attention alone can find
    for (std::size_t i = 1; i < data.tokens.size(); ++i) data.targets[i] = data.tokens[i - 1];
  }
  Model model(c);
  model.allocate(seed);
  TrainConfig t;
  t.rule = rule;
  t.optimizer.kind = "adam";
  t.schedule = {.kind = "constant", .peak = 3e-3F, .floor = 0.0F, .warmup = 0, .total = 150};
  Trainer trainer(model, t);
  if (silent) silence(trainer.rule(), c.layers);
  const Batch batch = data.view();
  const double first = trainer.step({&batch, 1}).loss;
  double last = first;
  for (int step = 1; step < 150; ++step) last = trainer.step({&batch, 1}).loss;
  return last / first;
}

// In the middle of three: direct feedback may be slow to take hold, and rounding decides where.
double learnt(const ModelConfig& c, const char* rule, bool silent, BatchShape shape) {
  std::array<double, 3> losses{};
  for (std::size_t i = 0; i < losses.size(); ++i) {
    losses[i] = learnt_from(c, rule, silent, shape, i + 1);
  }
  std::ranges::sort(losses);
  return losses[1];
}

TEST(FeedbackRules, TeachMoreThanTheLastLayer) {
  const int usual = thread_count();
  set_thread_count(1);
  for (const char* rule : {"fa", "dfa"}) {
    const auto expect = [&](const ModelConfig& c, const BatchShape& shape, double best) {
      const double loss = learnt(c, rule, /*silent=*/false, shape);
      EXPECT_LT(loss, best) << rule << ' ' << c.family;
      EXPECT_LT(loss, 0.75 * learnt(c, rule, /*silent=*/true, shape)) << rule << ' ' << c.family;
    };
    expect(small("decoder"), {.batch = 4, .length = 13}, 0.5);
    ModelConfig pre = classifier("encoder");
    pre.wiring = Wiring::kPreNorm;
    expect(pre, {.batch = 16, .length = 13, .padded = true}, 0.5);
    expect(classifier("encoder"), {.batch = 16, .length = 13, .padded = true}, 0.6);
    expect(classifier("mlp"), {.batch = 16, .length = 1}, 0.5);
  }
  set_thread_count(usual);
}

}  // namespace feedback_training_test
}  // namespace longspan
