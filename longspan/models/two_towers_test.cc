#include "longspan/models/two_towers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "longspan/base/meter.h"
#include "longspan/testing/check_layer.h"
#include "longspan/testing/reference_cases.h"
#include "longspan/testing/reference_model.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace two_towers_test {

using testing::BatchData;
using testing::Complex;
using testing::ReferenceModel;
using testing::Tensor;
using testing::Weights;

constexpr std::size_t kPairs = 3;
constexpr std::size_t kWidth = 5;
constexpr float kScale = 0.37F;

TwoTowersConfig small() {
  TwoTowersConfig c;
  c.text.family = Family::kDecoder;
  c.text.head = HeadKind::kClassifier;
  c.text.pool = Pool::kLargest;
  c.text.activation = Activation::kQuickGelu;
  c.text.classes = kWidth;
  c.text.layers = 1;
  c.text.d_model = 12;
  c.text.heads = 3;
  c.text.d_ff = 10;
  c.text.vocab = 11;
  c.text.max_length = 7;
  c.image = c.text;
  c.image.family = Family::kEncoder;
  c.image.pool = Pool::kFirst;
  c.image.stem = StemKind::kPatches;
  c.image.channels = 2;
  c.image.image = 4;
  c.image.patch = 2;
  c.image.stem_bias = false;
  c.image.embedding_norm = true;
  c.log_scale = 0.8F;
  return c;
}

class TwoTowersTest : public ::testing::Test {
 protected:
  TwoTowersTest()
      : towers_(small()),
        texts_(small().text, {.batch = kPairs, .length = 6, .padded = true}, 7),
        images_(small().image, {.batch = kPairs, .length = 5}, 8) {
    towers_.allocate(1);
    testing::randomize(towers_.text().parameters(), 3);
    testing::randomize(towers_.image().parameters(), 4);
    text_weights_ = testing::weights_of(towers_.text().parameters());
    image_weights_ = testing::weights_of(towers_.image().parameters());
  }

  static Tensor<Complex> unit(Tensor<Complex> x) {
    for (std::size_t i = 0; i < x.rows; ++i) {
      Complex sum(0.0);
      for (std::size_t j = 0; j < x.cols; ++j) sum += x(i, j) * x(i, j);
      for (std::size_t j = 0; j < x.cols; ++j) x(i, j) /= std::sqrt(sum);
    }
    return x;
  }
  static Complex reference(const Weights& text, const Weights& image, Complex log_scale,
                           const Batch& texts, const Batch& images) {
    const auto a = unit(ReferenceModel<Complex>(small().text, text, texts).logits());
    const auto b = unit(ReferenceModel<Complex>(small().image, image, images).logits());
    Tensor<Complex> rows(kPairs, kPairs);
    Tensor<Complex> columns(kPairs, kPairs);
    for (std::size_t i = 0; i < kPairs; ++i) {
      for (std::size_t j = 0; j < kPairs; ++j) {
        for (std::size_t k = 0; k < kWidth; ++k) rows(i, j) += a(i, k) * b(j, k);
        rows(i, j) *= std::exp(log_scale);
        columns(j, i) = rows(i, j);
      }
    }
    const std::vector<std::int32_t> own = {0, 1, 2};
    return 0.5 * (testing::cross_entropy_of(rows, own) + testing::cross_entropy_of(columns, own));
  }
  void run() {
    towers_.forward(texts_.view(), images_.view(), 5, kScale);
    towers_.backward(texts_.view(), images_.view());
  }

  TwoTowers towers_;
  BatchData texts_;
  BatchData images_;
  Weights text_weights_;
  Weights image_weights_;
};

TEST_F(TwoTowersTest, LossIsTheReferences) {
  const double want =
      reference(text_weights_, image_weights_, Complex(0.8F), texts_.view(), images_.view()).real();
  const LossSum evaluated = towers_.evaluate(texts_.view(), images_.view());
  EXPECT_NEAR(evaluated.loss, want, 2e-6 * want);
  EXPECT_EQ(evaluated.counted, kPairs);
  const LossSum trained = towers_.forward(texts_.view(), images_.view(), 5, kScale);
  EXPECT_EQ(trained.loss, evaluated.loss);
}

TEST_F(TwoTowersTest, EveryParameterMatchesTheComplexStep) {
  const auto scaled = [&](const Weights& text, const Weights& image, Complex s) {
    return static_cast<double>(kScale) * reference(text, image, s, texts_.view(), images_.view());
  };
  const auto forget = [&] {
    for (Parameters* p :
         {&towers_.text().parameters(), &towers_.image().parameters(), &towers_.parameters()}) {
      std::ranges::fill(p->gradients(), 0.0F);
    }
  };
  testing::expect_gradients(
      towers_.text().parameters(), text_weights_, [&] { run(); },
      [&](const Weights& w) { return scaled(w, image_weights_, Complex(0.8F)); });
  forget();
  testing::expect_gradients(
      towers_.image().parameters(), image_weights_, [&] { run(); },
      [&](const Weights& w) { return scaled(text_weights_, w, Complex(0.8F)); });
  forget();
  run();
  const double slope = scaled(text_weights_, image_weights_, Complex(0.8F, 1e-30)).imag() / 1e-30;
  EXPECT_NEAR(towers_.parameters().gradients()[0], slope, 1e-5 * std::abs(slope));
}

TEST_F(TwoTowersTest, CostIsWhatRuns) {
  for (const bool training : {false, true}) {
    Meter meter;
    {
      const Meter::Use use(meter);
      if (training) {
        run();
      } else {
        towers_.evaluate(texts_.view(), images_.view());
      }
    }
    const CostTable want = towers_.cost(texts_.view(), images_.view(), training);
    const CostTable got = cost_of(meter);
    for (const auto& [layer, cost] : want) {
      SCOPED_TRACE(layer);
      const auto found = got.find(layer);
      ASSERT_NE(found, got.end());
      testing::expect_same(found->second.forward, cost.forward, "forward");
      testing::expect_same(found->second.backward, cost.backward, "backward");
      testing::expect_same(found->second.update, cost.update, "update");
    }
    const Cost& own = want.find("matching")->second;
    const std::uint64_t pairs = kPairs * kPairs;
    EXPECT_EQ(own.forward.maccs, 2 * pairs * kWidth);
    EXPECT_EQ(own.forward[Kind::kNorm], 2 * kPairs * (3 * kWidth + 2));
    EXPECT_EQ(own.forward[Kind::kSoftmax], 10 * pairs);
    if (!training) continue;
    EXPECT_EQ(own.backward.maccs, 4 * pairs * kWidth);
    EXPECT_EQ(own.backward[Kind::kNorm], 10 * kPairs * kWidth);
    EXPECT_EQ(own.backward[Kind::kSoftmax], 2 * kPairs);
    EXPECT_EQ(own.update[Kind::kAdd], 2 * kPairs * kWidth);
  }
}

TEST_F(TwoTowersTest, SaysWhatIsNeeded) {
  TwoTowersConfig c = small();
  c.image.classes = 4;
  EXPECT_EQ(testing::message_of([&] { TwoTowers{c}; }),
            "[two towers] texts of 5 numbers and images of 4; need equal widths");
  EXPECT_EQ(
      testing::message_of([&] { towers_.backward(texts_.view(), images_.view()); }),
      "[two towers] backward without a forward; need forward on the same batches just before");
}

}  // namespace two_towers_test
}  // namespace longspan
