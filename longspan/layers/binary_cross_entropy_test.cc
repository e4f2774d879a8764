#include "longspan/layers/binary_cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "longspan/base/dry.h"
#include "longspan/base/meter.h"
#include "longspan/base/random.h"
#include "longspan/testing/reference.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace binary_cross_entropy_test {

using testing::Complex;
using testing::message_of;
using testing::Tensor;

constexpr std::size_t kRows = 4;
constexpr float kScale = 0.3F;

struct Given {
  explicit Given(std::size_t outputs_) : outputs(outputs_) {
    for (std::size_t i = 0; i < kRows * outputs; ++i) {
      scores.push_back(3.0F * random_normal(1, i));
      targets.push_back(static_cast<std::int32_t>(i % 3) - 1);
    }
  }
  Batch batch() const { return {.batch = kRows, .length = 1, .targets = targets}; }
  Matrix matrix() { return {scores.data(), kRows, outputs}; }
  Complex reference(std::size_t moved) const {
    Tensor<Complex> x(kRows, outputs);
    for (std::size_t i = 0; i < x.data.size(); ++i) {
      x.data[i] = Complex(scores[i], i == moved ? 1e-30 : 0.0);
    }
    return testing::binary_cross_entropy_of(x, targets);
  }

  std::size_t outputs;
  std::vector<float> scores;
  std::vector<std::int32_t> targets;
};

TEST(BinaryLoss, IsTheDefinitionAndItsGradient) {
  const auto loss = make_loss("binary");
  for (const std::size_t outputs : {1, 3}) {
    Given given(outputs);
    const Given before(outputs);
    const std::size_t all = kRows * outputs;
    const Goal goal = loss->goal(given.batch(), kRows, outputs);
    EXPECT_EQ(goal.counted, all - (all + 2) / 3);
    const LossSum judged = loss->measure(given.matrix(), goal);
    EXPECT_NEAR(judged.loss, before.reference(all).real(), 1e-6);
    EXPECT_EQ(given.scores, before.scores);
    std::size_t correct = 0;
    for (std::size_t i = 0; i < all; ++i) {
      if (before.targets[i] >= 0 && (before.scores[i] > 0.0F) == (before.targets[i] == 1))
        ++correct;
    }
    EXPECT_EQ(judged.correct, correct);
    const LossSum sum = loss->predict(given.matrix(), goal, kScale);
    EXPECT_EQ(sum.loss, judged.loss);
    EXPECT_EQ(sum.counted, goal.counted);
    loss->error(given.matrix(), goal, kScale);
    for (std::size_t i = 0; i < all; ++i) {
      const double slope = before.reference(i).imag() / 1e-30;
      EXPECT_NEAR(given.scores[i], static_cast<double>(kScale) * slope, 1e-7) << i;
    }
  }
}

// log(1 + e^x) of a large x is x, and of a very negative one e^x.
TEST(BinaryLoss, LargeScoresAreFinite) {
  const auto loss = make_loss("binary");
  const auto of = [&](float score, std::int32_t target) {
    const Batch batch{.batch = 1, .length = 1, .targets = {&target, 1}};
    return loss->measure({&score, 1, 1}, loss->goal(batch, 1, 1)).loss;
  };
  EXPECT_EQ(of(1e6F, 0), 1e6);
  EXPECT_EQ(of(1e6F, 1), 0.0);
  EXPECT_EQ(of(-1e6F, 0), 0.0);
  EXPECT_EQ(of(-1e6F, 1), 1e6);
  EXPECT_NEAR(of(-30.0F, 0) / std::exp(-30.0), 1.0, 1e-6);
}

TEST(BinaryLoss, MetersWhatItSays) {
  const auto loss = make_loss("binary");
  Given given(3);
  const Goal goal = loss->goal(given.batch(), kRows, 3);
  const auto spent = [&](auto&& run) {
    Meter meter;
    const Meter::Use use(meter);
    run();
    return meter.total(Phase::kForward).flops();
  };
  EXPECT_EQ(spent([&] { loss->measure(given.matrix(), goal); }), 5U * kRows * 3);
  EXPECT_EQ(spent([&] { loss->predict(given.matrix(), goal, 1.0F); }), 5U * kRows * 3);
  EXPECT_EQ(spent([&] { loss->error(given.matrix(), goal, 1.0F); }), goal.counted);
}

TEST(BinaryLoss, SaysWhatIsMissing) {
  const auto loss = make_loss("binary");
  Given given(3);
  loss->check(given.batch(), kRows, 3);
  EXPECT_EQ(message_of([&] { loss->check(given.batch(), kRows, 2); }),
            "[model] 12 targets; need 2 for each of 4 rows");
  given.targets[0] = 2;
  EXPECT_EQ(message_of([&] { loss->check(given.batch(), kRows, 3); }),
            "[model] target 2 of a binary loss; need 0, 1 or -1");
  const Dry dry;
  EXPECT_EQ(loss->goal({}, kRows, 3).counted, 12U);
}

}  // namespace binary_cross_entropy_test
}  // namespace longspan
