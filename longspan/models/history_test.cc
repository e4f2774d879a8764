// History of earlier segments: with room for the whole past, segments give what one long sequence
// gives, at any depth.
#include <gtest/gtest.h>

#include <algorithm>

#include "longspan/base/error.h"
#include "longspan/models/model.h"
#include "longspan/testing/reference_cases.h"

namespace longspan {
namespace history_test {

ModelConfig config_of(const std::string& wiring) {
  ModelConfig c;
  c.layers = 3;
  c.d_model = 24;
  c.heads = 2;
  c.vocab = 17;
  c.max_length = 40;
  c.positions = PositionKind::kNone;
  c.wiring = wiring;
  c.attention = "transformer-xl";
  return c;
}

// The logits of `length` tokens of each sequence, `step` at a time.
std::vector<float> by_segments(Model& model, const Batch& whole, std::size_t step,
                               std::size_t capacity) {
  std::vector<History> histories = model.make_histories(whole.batch, capacity);
  const std::size_t vocab = model.config().vocab;
  std::vector<float> all(whole.batch * whole.length * vocab);
  for (std::size_t first = 0; first < whole.length; first += step) {
    const std::size_t count = std::min(step, whole.length - first);
    std::vector<std::int32_t> tokens;
    for (std::size_t b = 0; b < whole.batch; ++b) {
      const auto row = whole.tokens.subspan(b * whole.length + first, count);
      tokens.insert(tokens.end(), row.begin(), row.end());
    }
    const Batch segment{.batch = whole.batch, .length = count, .tokens = tokens};
    const ConstMatrix logits = model.logits(segment, histories);
    EXPECT_EQ(model.arena().peak(), model.inference_bytes(segment, histories));
    for (std::size_t i = 0; i < logits.rows; ++i) {
      const std::size_t row = i / count * whole.length + first + i % count;
      std::ranges::copy(logits.row(i), all.begin() + static_cast<std::ptrdiff_t>(row * vocab));
    }
    for (History& h : histories) h.advance();
  }
  return all;
}

TEST(History, SegmentsAreTheWhole) {
  for (const std::string wiring : {"pre", "post", "reversible"}) {
    SCOPED_TRACE(wiring);
    const ModelConfig c = config_of(wiring);
    Model model(c);
    model.allocate(1);
    const testing::BatchData data(c, {.batch = 2, .length = 29}, 3);
    const ConstMatrix logits = model.logits(data.view());
    const std::vector<float> whole(logits.data, logits.data + logits.size());
    const float largest =
        std::abs(*std::ranges::max_element(whole, {}, [](float x) { return std::abs(x); }));
    for (const std::size_t step : {1U, 7U, 16U, 29U}) {
      const std::vector<float> parts = by_segments(model, data.view(), step, 29);
      for (std::size_t i = 0; i < whole.size(); ++i) {
        ASSERT_NEAR(parts[i], whole[i], 1e-5F * largest) << "segments of " << step;
      }
    }
    // A history that forgets is something else.
    const std::vector<float> short_history = by_segments(model, data.view(), 7, 3);
    float difference = 0.0F;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      difference = std::max(difference, std::abs(short_history[i] - whole[i]));
    }
    EXPECT_GT(difference, 1e-3F * largest);
  }
}

TEST(History, TrainingReadsAndAdvances) {
  const ModelConfig c = config_of("pre");
  Model model(c);
  model.allocate(1);
  const testing::BatchData data(c, {.batch = 2, .length = 8}, 3);
  std::vector<History> histories = model.make_histories(2, 12);
  const Batch batch = data.view();
  for (const std::size_t length : {0U, 8U, 12U, 12U}) {
    EXPECT_EQ(histories.front().length(), length);
    const std::size_t predicted = model.training_bytes(batch, histories);
    Meter meter;
    {
      const Meter::Use use(meter);
      model.forward(batch, 1, 1.0F, histories);
      model.backward(batch, 1.0F);
    }
    EXPECT_EQ(model.arena().peak(), predicted);
    const Cost mha = model.cost(batch, /*training=*/true, histories).at("mha");
    EXPECT_TRUE(same_arithmetic(meter.at("mha", Phase::kForward), mha.forward));
    EXPECT_TRUE(same_arithmetic(meter.at("mha", Phase::kBackward), mha.backward));
    EXPECT_TRUE(same_arithmetic(meter.at("mha", Phase::kUpdate), mha.update));
    for (History& h : histories) h.advance();
  }
}

TEST(History, SaysWhatDoesNotFit) {
  const ModelConfig c = config_of("pre");
  Model model(c);
  model.allocate(1);
  const testing::BatchData data(c, {.batch = 2, .length = 8}, 3);
  std::vector<History> histories = model.make_histories(1, 12);
  try {
    model.logits(data.view(), histories);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[model] histories of 3 layers; need 3, each of 2 sequences");
  }
}

}  // namespace history_test
}  // namespace longspan
