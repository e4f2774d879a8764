#include "longspan/layers/span_loss.h"

#include <gtest/gtest.h>

#include <vector>

#include "longspan/base/dry.h"
#include "longspan/base/meter.h"
#include "longspan/base/packed_batch.h"
#include "longspan/base/random.h"
#include "longspan/testing/reference.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace span_loss_test {

using testing::Complex;
using testing::message_of;
using testing::Tensor;

constexpr std::size_t kBatch = 3;
constexpr std::size_t kLength = 5;
constexpr std::size_t kEnds = 2;
constexpr std::size_t kRows = kBatch * kLength;
constexpr float kScale = 0.3F;

struct Given {
  Given() {
    for (std::size_t i = 0; i < kRows * kEnds; ++i) scores.push_back(2.0F * random_normal(1, i));
  }
  Batch batch() const {
    return {.batch = kBatch, .length = kLength, .targets = targets, .lengths = lengths};
  }
  Matrix matrix() { return {scores.data(), kRows, kEnds}; }

  std::vector<float> scores;
  std::vector<std::int32_t> targets = {0, 3, kIgnoredTarget, 1, 1, 2};
  std::vector<std::int32_t> lengths = {5, 2, 3};
};

Complex reference(const Given& given, bool masked, std::size_t moved = kRows * kEnds) {
  Tensor<Complex> x(kRows, kEnds);
  for (std::size_t i = 0; i < x.data.size(); ++i) {
    x.data[i] = Complex(given.scores[i], i == moved ? 1e-30 : 0.0);
  }
  const auto places = [&](std::size_t b) {
    return masked ? static_cast<std::size_t>(given.lengths[b]) : kLength;
  };
  return testing::span_loss_of(x, kLength, places, given.targets);
}

TEST(SpanLoss, IsTheDefinitionAndItsGradient) {
  for (const bool masked : {false, true}) {
    SCOPED_TRACE(masked);
    const auto loss = make_loss(masked ? "span:masked=true" : "span");
    EXPECT_EQ(loss->reads_padding(), !masked);
    Given given;
    const Given before;
    const Goal goal = loss->goal(given.batch(), kRows, kEnds);
    EXPECT_EQ(goal.counted, 5U);
    const LossSum judged = loss->measure(given.matrix(), goal);
    EXPECT_NEAR(judged.loss, reference(before, masked).real(), 1e-6);
    EXPECT_EQ(given.scores, before.scores);
    const LossSum sum = loss->predict(given.matrix(), goal, kScale);
    EXPECT_EQ(sum.loss, judged.loss);
    EXPECT_EQ(sum.counted, 5U);
    EXPECT_EQ(sum.correct, judged.correct);
    loss->error(given.matrix(), goal, kScale);
    for (std::size_t i = 0; i < kRows * kEnds; ++i) {
      const double slope = reference(before, masked, i).imag() / 1e-30;
      EXPECT_NEAR(given.scores[i], static_cast<double>(kScale) * slope, 1e-7) << i;
    }
  }
}

TEST(SpanLoss, CorrectIsTheLargestOfItsColumn) {
  Given given;
  std::ranges::fill(given.scores, 0.0F);
  given.matrix().row_data(0)[0] = 1.0F;                // right
  given.matrix().row_data(4)[1] = 1.0F;                // wrong, for 3
  given.matrix().row_data(kLength + 1)[1] = 1.0F;      // right
  given.matrix().row_data(2 * kLength + 4)[0] = 1.0F;  // padding
  given.matrix().row_data(2 * kLength + 1)[0] = 0.5F;  // the largest of the real ones
  given.matrix().row_data(2 * kLength + 2)[1] = 1.0F;  // right
  const auto correct = [&](const char* name) {
    const auto loss = make_loss(name);
    return loss->measure(given.matrix(), loss->goal(given.batch(), kRows, kEnds)).correct;
  };
  EXPECT_EQ(correct("span"), 3U);
  EXPECT_EQ(correct("span:masked=true"), 4U);
}

// Packed rows have no padding to judge, and the sum is the masked one.
TEST(SpanLoss, OfPackedRowsIsThatOfTheRealOnes) {
  const auto loss = make_loss("span:masked=true");
  Given given;
  const LossSum padded = loss->measure(given.matrix(), loss->goal(given.batch(), kRows, kEnds));
  PackedMemory memory;
  const Batch packed = pack(given.batch(), Answers::kOfSequences, memory);
  std::vector<float> rows;
  for (std::size_t b = 0; b < kBatch; ++b) {
    const auto first = given.scores.begin() + static_cast<std::ptrdiff_t>(b * kLength * kEnds);
    rows.insert(rows.end(), first, first + given.lengths[b] * static_cast<std::ptrdiff_t>(kEnds));
  }
  ASSERT_EQ(packed.rows() * kEnds, rows.size());
  loss->check(packed, packed.rows(), kEnds);
  const Goal goal = loss->goal(packed, packed.rows(), kEnds);
  const LossSum own = loss->measure({rows.data(), packed.rows(), kEnds}, goal);
  EXPECT_EQ(own.loss, padded.loss);
  EXPECT_EQ(own.counted, padded.counted);
}

TEST(SpanLoss, MetersThePlaces) {
  for (const bool masked : {false, true}) {
    const auto loss = make_loss(masked ? "span:masked=true" : "span");
    Given given;
    const Goal goal = loss->goal(given.batch(), kRows, kEnds);
    const std::uint64_t places = masked ? 10 : 15;
    const auto spent = [&](auto&& run) {
      Meter meter;
      const Meter::Use use(meter);
      run();
      return meter.total(Phase::kForward).flops();
    };
    EXPECT_EQ(spent([&] { loss->measure(given.matrix(), goal); }), 5 * places * kEnds);
    EXPECT_EQ(spent([&] { loss->predict(given.matrix(), goal, 1.0F); }), 5 * places * kEnds);
    EXPECT_EQ(spent([&] { loss->error(given.matrix(), goal, 1.0F); }), 5U);
  }
}

TEST(SpanLoss, SaysWhatIsMissing) {
  const auto loss = make_loss("span");
  Given given;
  loss->check(given.batch(), kRows, kEnds);
  given.targets[5] = 4;  // padding, which is a place here
  loss->check(given.batch(), kRows, kEnds);
  EXPECT_EQ(message_of([&] { make_loss("span:masked=true")->check(given.batch(), kRows, kEnds); }),
            "[model] target 4 is no place of a sequence of 3");
  given.targets[5] = 5;
  EXPECT_EQ(message_of([&] { loss->check(given.batch(), kRows, kEnds); }),
            "[model] target 5 is no place of a sequence of 5");
  given.targets.pop_back();
  EXPECT_EQ(message_of([&] { loss->check(given.batch(), kRows, kEnds); }),
            "[model] 5 targets for 3 sequences; need 2 of each, where the span begins and ends");
  const Dry dry;
  EXPECT_EQ(loss->goal({.batch = kBatch, .length = kLength}, kRows, kEnds).counted, 6U);
}

}  // namespace span_loss_test
}  // namespace longspan
