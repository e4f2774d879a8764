// Losses behind their interface: predict and error are the gradient of what measure sums, dry they
// do nothing, and what a batch lacks is said.
#include "longspan/layers/loss.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "longspan/base/dry.h"
#include "longspan/base/random.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace loss_test {

using testing::message_of;

constexpr std::size_t kRows = 6;
constexpr std::size_t kOutputs = 5;
constexpr const char* kLosses[] = {"cross-entropy", "squared-error"};

struct Given {
  Given() {
    for (std::size_t i = 0; i < kRows * kOutputs; ++i) {
      scores.push_back(random_normal(1, i));
      values.push_back(random_normal(2, i));
    }
    for (std::size_t i = 0; i < kRows; ++i) {
      targets.push_back(static_cast<std::int32_t>(random_below(3, i, kOutputs)));
    }
    targets[2] = kIgnoredTarget;
    values[7] = std::numeric_limits<float>::quiet_NaN();
  }
  Batch batch() const {
    return {.batch = kRows, .length = 1, .targets = targets, .values = values};
  }
  Matrix matrix() { return {scores.data(), kRows, kOutputs}; }

  std::vector<float> scores;
  std::vector<std::int32_t> targets;
  std::vector<float> values;
};

TEST(Loss, ErrorIsTheGradientOfTheSum) {
  for (const char* name : kLosses) {
    SCOPED_TRACE(name);
    const auto loss = make_loss(name);
    EXPECT_EQ(loss->name(), name);
    Given given;
    const Goal goal = loss->goal(given.batch(), kRows, kOutputs);
    EXPECT_EQ(goal.counted, loss->count(given.batch()));
    const LossSum sum = loss->measure(given.matrix(), goal);
    EXPECT_EQ(sum.counted, goal.counted);
    constexpr float kScale = 0.3F;
    constexpr float kStep = 1.0F / 64;
    std::vector<double> expected;
    for (float& x : given.scores) {
      const float at = x;
      x = at + kStep;
      const double above = loss->measure(given.matrix(), goal).loss;
      x = at - kStep;
      expected.push_back(kScale * (above - loss->measure(given.matrix(), goal).loss) / (2 * kStep));
      x = at;
    }
    const LossSum predicted = loss->predict(given.matrix(), goal, kScale);
    EXPECT_NEAR(predicted.loss, sum.loss, 1e-12);
    EXPECT_EQ(predicted.correct, sum.correct);
    loss->error(given.matrix(), goal, kScale);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(given.scores[i], expected[i], 1e-4) << i;
    }
  }
}

TEST(Loss, OfABatchWithoutTargetsEveryOneCounts) {
  const Dry dry;
  EXPECT_EQ(make_loss("cross-entropy")->goal({}, kRows, kOutputs).counted, kRows);
  EXPECT_EQ(make_loss("squared-error")->goal({}, kRows, kOutputs).counted, kRows * kOutputs);
}

TEST(Loss, SaysWhatIsMissing) {
  Given given;
  for (const char* name : kLosses) {
    make_loss(name)->check(given.batch(), kRows, kOutputs);
    EXPECT_NE(message_of([&] { make_loss(name)->check({}, kRows, kOutputs); }), "");
  }
  given.targets[1] = 5;
  EXPECT_EQ(message_of([&] { make_loss("cross-entropy")->check(given.batch(), kRows, kOutputs); }),
            "[model] target 5 is outside 0 to 4");
  given.values.pop_back();
  EXPECT_EQ(message_of([&] { make_loss("squared-error")->check(given.batch(), kRows, kOutputs); }),
            "[model] 29 values; need 5 for each of 6 rows");
  EXPECT_EQ(
      message_of([] { make_loss("cross-entrpy"); }),
      "[model] unknown loss 'cross-entrpy'; did you mean 'cross-entropy'? Known: "
      "cross-entropy, distillation, binary, span, squared-error, weighted-sum, events-affine, "
      "events-affine-quadrature, "
      "events-affine-monte-carlo, events-exponential, events-exponential-quadrature, "
      "events-exponential-monte-carlo, events-published");
}

}  // namespace loss_test
}  // namespace longspan
