#include "longspan/learning/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/base/meter.h"
#include "longspan/base/parallel.h"

namespace longspan {
namespace trainer_test {

ModelConfig tiny() {
  ModelConfig c;
  c.layers = 2;
  c.d_model = 16;
  c.heads = 2;
  c.vocab = 11;
  c.max_length = 8;
  return c;
}

// Sequences that count upwards modulo the vocabulary from a random start: easy to learn.
struct Counting {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
  Batch batch;

  Counting(std::size_t rows, std::size_t length, std::uint64_t step)
      : tokens(rows * length), targets(rows * length) {
    for (std::size_t r = 0; r < rows; ++r) {
      const auto start = random_below(derive(99, step), r, 11);
      for (std::size_t i = 0; i < length; ++i) {
        tokens[r * length + i] = static_cast<std::int32_t>((start + i) % 11);
        targets[r * length + i] = static_cast<std::int32_t>((start + i + 1) % 11);
      }
    }
    batch = {.batch = rows, .length = length, .tokens = tokens, .targets = targets};
  }
};

TrainConfig training(const char* optimizer, float rate) {
  TrainConfig t;
  t.optimizer.kind = optimizer;
  t.optimizer.weight_decay = 0.01F;
  t.schedule = {.kind = "constant", .peak = rate, .floor = 0.0F, .warmup = 5, .total = 200};
  return t;
}

class Optimizers : public ::testing::TestWithParam<std::pair<const char*, float>> {};

TEST_P(Optimizers, LearnToCount) {
  Model model(tiny());
  model.allocate(3);
  Trainer trainer(model, training(GetParam().first, GetParam().second));
  StepReport report;
  for (std::uint64_t step = 0; step < 400; ++step) {
    const Counting data(8, 8, step);
    report = trainer.step(std::span(&data.batch, 1));
    ASSERT_TRUE(report.finite);
  }
  EXPECT_EQ(report.step, 400U);
  EXPECT_EQ(report.tokens, 64U);
  EXPECT_LT(report.loss, 0.5) << "chance is " << std::log(11.0);
}

INSTANTIATE_TEST_SUITE_P(All, Optimizers,
                         ::testing::Values(std::pair{"sgd", 0.5F}, std::pair{"momentum", 0.1F},
                                           std::pair{"adam", 0.01F}, std::pair{"adamw", 0.01F}),
                         [](const auto& p) { return std::string(p.param.first); });

// Two batches per update are the whole batch, up to the order of the sums.
TEST(Trainer, BatchesOfAnUpdateEqualALargerBatch) {
  const Counting whole(6, 8, 1);
  Counting a(6, 8, 1);
  const auto cut = [&](std::size_t first, std::size_t rows) {
    return Batch{.batch = rows,
                 .length = 8,
                 .tokens = std::span(a.tokens).subspan(first * 8, rows * 8),
                 .targets = std::span(a.targets).subspan(first * 8, rows * 8)};
  };
  const std::vector<Batch> parts = {cut(0, 2), cut(2, 4)};
  Model one(tiny());
  Model two(tiny());
  one.allocate(3);
  two.allocate(3);
  Trainer train_one(one, training("sgd", 0.1F));
  Trainer train_two(two, training("sgd", 0.1F));
  const StepReport r1 = train_one.step(std::span(&whole.batch, 1));
  const StepReport r2 = train_two.step(parts);
  EXPECT_NEAR(r1.loss, r2.loss, 1e-6);
  EXPECT_NEAR(r1.gradient_norm, r2.gradient_norm, 1e-5 * r1.gradient_norm);
  for (std::size_t i = 0; i < one.parameters().count(); ++i) {
    ASSERT_NEAR(one.parameters().gradients()[i], two.parameters().gradients()[i], 2e-6) << i;
  }
}

TEST(Trainer, ClippingBoundsTheStep) {
  const Counting data(4, 8, 1);
  TrainConfig t = training("sgd", 1.0F);
  t.schedule.warmup = 0;
  t.optimizer.weight_decay = 0.0F;
  t.clip = 0.01F;
  Model model(tiny());
  model.allocate(3);
  const std::vector<float> before(model.parameters().values().begin(),
                                  model.parameters().values().end());
  const StepReport report = Trainer(model, t).step(std::span(&data.batch, 1));
  ASSERT_GT(report.gradient_norm, 0.01);
  double moved = 0.0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    moved += std::pow(model.parameters().values()[i] - before[i], 2);
  }
  EXPECT_NEAR(std::sqrt(moved), 0.01, 1e-5);
}

TEST(Trainer, WeightDecaySparesVectors) {
  const Counting data(4, 8, 1);
  const auto step = [&](float decay) {
    TrainConfig t = training("adamw", 0.1F);
    t.schedule.warmup = 0;
    t.optimizer.weight_decay = decay;
    auto model = std::make_unique<Model>(tiny());
    model->allocate(3);
    for (float& w : model->parameters().values()) w += 0.25F;
    Trainer(*model, t).step(std::span(&data.batch, 1));
    return model;
  };
  const auto plain = step(0.0F);
  const auto decayed = step(0.5F);
  for (std::size_t p = 0; p < plain->parameters().all().size(); ++p) {
    const Parameter& a = plain->parameters().all()[p];
    const Parameter& b = decayed->parameters().all()[p];
    const bool same = std::equal(a.value.begin(), a.value.end(), b.value.begin());
    EXPECT_EQ(same, a.is_vector) << a.name;
  }
}

TEST(Trainer, ADivergedStepLeavesTheWeightsAlone) {
  const Counting data(4, 8, 1);
  Model model(tiny());
  model.allocate(3);
  model.parameters().values()[0] = std::numeric_limits<float>::quiet_NaN();
  model.parameters().all().front().value[0] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> before(model.parameters().values().begin(),
                                  model.parameters().values().end());
  Trainer trainer(model, training("sgd", 0.1F));
  // Every token is used, so that the poisoned weight is met.
  const Counting all(11, 8, 2);
  const StepReport report = trainer.step(std::span(&all.batch, 1));
  EXPECT_FALSE(report.finite);
  EXPECT_EQ(report.step, 0U);
  for (std::size_t i = 1; i < before.size(); ++i) {
    ASSERT_EQ(model.parameters().values()[i], before[i]);
  }
}

TEST(Trainer, TheSameSeedGivesTheSameBitsOnAnyNumberOfThreads) {
  const auto train = [](int threads) {
    set_thread_count(threads);
    ModelConfig c = tiny();
    c.dropout = 0.1F;
    Model model(c);
    model.allocate(3);
    Trainer trainer(model, training("adamw", 0.01F));
    for (std::uint64_t step = 0; step < 5; ++step) {
      const Counting data(8, 8, step);
      trainer.step(std::span(&data.batch, 1));
    }
    const auto values = model.parameters().values();
    return std::vector<float>(values.begin(), values.end());
  };
  const int threads = thread_count();
  const auto one = train(1);
  const auto two = train(2);
  set_thread_count(threads);
  EXPECT_EQ(one, two);
}

TEST(Trainer, MeterOfTheOptimizerEqualsItsCost) {
  for (const char* kind : {"sgd", "momentum", "adam", "adamw"}) {
    const Counting data(4, 8, 1);
    Model model(tiny());
    model.allocate(3);
    Trainer trainer(model, training(kind, 0.01F));
    Meter meter;
    {
      const Meter::Use use(meter);
      trainer.step(std::span(&data.batch, 1));
    }
    Meter dry;
    {
      const Meter::Use use(dry);
      Optimizer::walk(trainer.config().optimizer, model.parameters());
    }
    EXPECT_EQ(meter.at("optimizer", Phase::kOptimizer), dry.at("optimizer", Phase::kOptimizer))
        << kind;
    EXPECT_EQ(meter.at("clipping", Phase::kOptimizer), dry.at("clipping", Phase::kOptimizer));
    const std::uint64_t each = std::map<std::string, std::uint64_t>{
        {"sgd", 2}, {"momentum", 4}, {"adam", 12}, {"adamw", 12}}[kind];
    const float decay = trainer.config().optimizer.weight_decay;
    const std::uint64_t decayed = decay == 0.0F ? 0 : 2 * model.parameters().matrix_count();
    EXPECT_EQ(dry.at("optimizer", Phase::kOptimizer).flops(),
              each * model.parameters().count() + decayed);
    EXPECT_EQ(meter.at("clipping", Phase::kOptimizer).flops(), 2 * model.parameters().count());
  }
}

TEST(Trainer, RefusesWhatMakesNoSense) {
  Model model(tiny());
  model.allocate(3);
  EXPECT_THROW(Trainer(model, training("adm", 0.1F)), Error);
  TrainConfig t = training("adam", 0.1F);
  t.rule = "bpp";
  EXPECT_THROW(Trainer(model, t), Error);
  t = training("adam", 0.1F);
  t.clip = -1.0F;
  EXPECT_THROW(Trainer(model, t), Error);
  Counting ignored(2, 8, 1);
  std::fill(ignored.targets.begin(), ignored.targets.end(), kIgnoredTarget);
  Trainer trainer(model, training("adam", 0.1F));
  EXPECT_THROW(trainer.step(std::span(&ignored.batch, 1)), Error);
}

}  // namespace trainer_test
}  // namespace longspan
