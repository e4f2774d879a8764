#include "longspan/layers/distillation.h"

#include <gtest/gtest.h>

#include <vector>

#include "longspan/base/meter.h"
#include "longspan/base/random.h"
#include "longspan/layers/distillation_ref.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace distillation_test {

using testing::message_of;
using Complex = std::complex<double>;

constexpr std::size_t kRows = 7;
constexpr std::size_t kOutputs = 5;
constexpr std::size_t kWidth = 3;
constexpr float kScale = 0.3F;
constexpr double kStep = 1e-30;

std::vector<float> drawn(RandomKey key, std::size_t count) {
  std::vector<float> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(2.0F * random_normal(key, i));
  return all;
}

struct Given {
  Batch batch() const {
    return {.batch = kRows,
            .length = 1,
            .targets = targets,
            .teacher_scores = teacher,
            .teacher_states = states};
  }
  // Of row r, with i·step added to number `moved` of the student's.
  static std::vector<Complex> row(const std::vector<float>& all, std::size_t r, std::size_t width,
                                  std::size_t moved) {
    std::vector<Complex> x;
    for (std::size_t j = 0; j < width; ++j) {
      x.emplace_back(all[r * width + j], j == moved ? kStep : 0.0);
    }
    return x;
  }

  std::vector<float> scores = drawn(1, kRows* kOutputs);
  std::vector<float> h = drawn(2, kRows* kWidth);
  std::vector<float> teacher = drawn(3, kRows* kOutputs);
  std::vector<float> states = drawn(4, kRows* kWidth);
  std::vector<std::int32_t> targets = {0, 4, kIgnoredTarget, 2, 1, kIgnoredTarget, 3};
};

TEST(Distillation, ScoresAreThoseOfTheDefinition) {
  for (const DistillationConfig config :
       {DistillationConfig{.temperature = 1.0F, .teacher_weight = 0.0F},
        {.temperature = 3.0F, .teacher_weight = 0.4F},
        {.temperature = 0.5F, .teacher_weight = 1.0F}}) {
    SCOPED_TRACE(config.loss());
    const auto loss = make_loss(config.loss());
    Given given;
    const Given before;
    const Goal goal = loss->goal(given.batch(), kRows, kOutputs);
    const Matrix scores{given.scores.data(), kRows, kOutputs};
    const LossSum judged = loss->measure(scores, goal);
    EXPECT_EQ(judged.loss, make_loss("cross-entropy")->measure(scores, goal).loss)
        << "judged without the teacher";
    const LossSum sum = loss->predict(scores, goal, kScale);
    loss->error(scores, goal, kScale);
    EXPECT_EQ(sum.counted, 5U);
    EXPECT_EQ(sum.correct, judged.correct);
    double want = 0.0;
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t j = 0; j < kOutputs; ++j) {
        double slope = 0.0;
        if (given.targets[r] != kIgnoredTarget) {
          const auto x = Given::row(before.scores, r, kOutputs, j);
          const Complex f = distillation_reference<Complex>(
              x, std::span(given.teacher).subspan(r * kOutputs, kOutputs),
              static_cast<std::size_t>(given.targets[r]), config.temperature,
              config.teacher_weight);
          slope = f.imag() / kStep;
          if (j == 0) want += f.real();
        }
        EXPECT_NEAR(given.scores[r * kOutputs + j], kScale * slope, 1e-6) << r << ' ' << j;
      }
    }
    EXPECT_NEAR(sum.loss, want, 1e-6 * want);
  }
}

TEST(Distillation, HiddenStatesAreThoseOfTheDefinition) {
  const auto loss = make_loss("distillation:hidden_weight=0.7");
  EXPECT_TRUE(loss->reads_states());
  Given given;
  const Goal goal = loss->goal(given.batch(), kRows, kOutputs);
  const ConstMatrix h{given.h.data(), kRows, kWidth};
  std::vector<float> dh = drawn(5, kRows * kWidth);
  const std::vector<float> start = dh;
  const double sum = loss->states(h, goal);
  loss->states_error(h, goal, kScale, {dh.data(), kRows, kWidth});
  double want = 0.0;
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t j = 0; j < kWidth; ++j) {
      double slope = 0.0;
      if (given.targets[r] != kIgnoredTarget) {
        const auto x = Given::row(given.h, r, kWidth, j);
        const Complex f = 0.7 * cosine_distance_reference<Complex>(
                                    x, std::span(given.states).subspan(r * kWidth, kWidth));
        slope = f.imag() / kStep;
        if (j == 0) want += f.real();
      }
      EXPECT_NEAR(dh[r * kWidth + j], start[r * kWidth + j] + kScale * slope, 2e-6)
          << r << ' ' << j;
    }
  }
  EXPECT_NEAR(sum, want, 1e-6);
}

TEST(Distillation, StatesWithoutADirectionHaveNoGradient) {
  const auto loss = make_loss("distillation:hidden_weight=1");
  Given given;
  std::ranges::fill(given.h, 0.0F);
  const ConstMatrix h{given.h.data(), kRows, kWidth};
  const Goal goal = loss->goal(given.batch(), kRows, kOutputs);
  std::vector<float> dh(kRows * kWidth);
  EXPECT_EQ(loss->states(h, goal), 5.0);
  loss->states_error(h, goal, kScale, {dh.data(), kRows, kWidth});
  EXPECT_EQ(dh, std::vector<float>(kRows * kWidth));
}

// What it says of its work, dry and not.
TEST(Distillation, CountsRowsThatCount) {
  const auto loss = make_loss("distillation:hidden_weight=1");
  const auto work = [&](const Batch& batch) {
    Given given;
    std::vector<float> dh(kRows * kWidth);
    Meter meter;
    const Meter::Use use(meter);
    const Goal goal = loss->goal(batch, kRows, kOutputs);
    loss->predict({given.scores.data(), kRows, kOutputs}, goal, kScale);
    loss->states({given.h.data(), kRows, kWidth}, goal);
    loss->states_error({given.h.data(), kRows, kWidth}, goal, kScale, {dh.data(), kRows, kWidth});
    Work all;
    for (const auto& [key, one] : meter.entries()) all += one;
    return all;
  };
  const Given given;
  const Work run = work(given.batch());
  EXPECT_EQ(run[Kind::kSoftmax], 24U * 5 * kOutputs);
  EXPECT_EQ(run.maccs, 8U * 5 * kWidth);
  const Dry dry;
  Batch shape = given.batch();
  shape.teacher_scores = {};
  shape.teacher_states = {};
  EXPECT_EQ(work(shape), run);
  EXPECT_EQ(work({.batch = kRows, .length = 1}).maccs, 8U * kRows * kWidth)
      << "every target counts";
}

TEST(Distillation, SaysWhatIsMissing) {
  Given given;
  const auto loss = make_loss("distillation:hidden_weight=1");
  Batch batch = given.batch();
  batch.teacher_scores = batch.teacher_scores.first(9);
  EXPECT_EQ(message_of([&] { loss->check(batch, kRows, kOutputs); }),
            "[distillation] 9 scores of a teacher; need 5 for each of 7 rows");
  batch.teacher_scores = {};
  loss->check(batch, kRows, kOutputs);  // enough to be judged
  EXPECT_EQ(message_of([&] {
              loss->predict({given.scores.data(), kRows, kOutputs},
                            loss->goal(batch, kRows, kOutputs), kScale);
            }),
            "[distillation] a batch without a teacher's scores; need the teacher's of every row");
  batch.teacher_states = batch.teacher_states.first(4);
  EXPECT_EQ(message_of([&] {
              loss->states({given.h.data(), kRows, kWidth}, loss->goal(batch, kRows, kOutputs));
            }),
            "[distillation] 4 numbers of a teacher's hidden states; need 3 for each of 7 rows");
  EXPECT_EQ(message_of([] { make_loss("cross-entropy:a=1"); }),
            "[model] options a=1 of the loss cross-entropy; it has none");
  EXPECT_NE(message_of([] { make_loss("distillation:temperature=0"); }), "");
}

}  // namespace distillation_test
}  // namespace longspan
