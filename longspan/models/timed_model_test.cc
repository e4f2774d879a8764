// Models whose tokens have times, and losses of events.
#include <gtest/gtest.h>

#include <algorithm>

#include "longspan/models/model.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace timed_model_test {

ModelConfig timed(const std::string& attention) {
  ModelConfig c;
  c.family = Family::kDecoder;
  c.head = HeadKind::kTagger;
  c.loss = "events-exponential";
  c.classes = 6;  // of two types
  c.positions = PositionKind::kTemporal;
  c.attention = attention;
  c.layers = 2;
  c.d_model = 16;
  c.heads = 2;
  c.vocab = 3;
  c.max_length = 32;
  c.init_deviation = 0.25F;
  return c;
}

struct Events {
  std::vector<std::int32_t> tokens = {2, 0, 1, 1, 0, 0, 1, 0};
  std::vector<float> times = {0.0F, 0.4F, 1.1F, 1.2F, 3.0F, 3.5F, 5.0F, 5.1F};
  std::vector<std::int32_t> next;
  std::vector<float> gaps;

  Batch batch() {
    next.clear();
    gaps.clear();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const bool last = i + 1 == tokens.size();
      next.push_back(last ? -2 : tokens[i + 1]);
      gaps.push_back(last ? 1.0F : times[i + 1] - times[i]);
    }
    return {.batch = 1,
            .length = tokens.size(),
            .tokens = tokens,
            .times = times,
            .targets = next,
            .values = gaps};
  }
};

// What is said of event i comes from the rows before it: changing its type or its time changes
// them no bit, and those from it on.
TEST(TimedModel, AnEventDoesNotForetellItself) {
  for (const char* attention : {"flash", "performer", "linear"}) {
    Model model(timed(attention));
    model.allocate(3);
    Events events;
    const auto scores = [&] {
      const ConstMatrix s = model.logits(events.batch());
      return std::vector<float>(s.data, s.data + s.rows * s.cols);
    };
    const std::vector<float> before = scores();
    for (const bool time : {false, true}) {
      Events changed = events;
      constexpr std::size_t kEvent = 4;
      if (time) {
        changed.times[kEvent] += 0.3F;
      } else {
        changed.tokens[kEvent] = 1;
      }
      std::swap(changed, events);
      const std::vector<float> after = scores();
      std::swap(changed, events);
      EXPECT_TRUE(std::equal(before.begin(), before.begin() + kEvent * 6, after.begin()))
          << attention;
      EXPECT_FALSE(std::equal(before.begin() + kEvent * 6, before.begin() + (kEvent + 1) * 6,
                              after.begin() + kEvent * 6))
          << attention;
    }
  }
}

// dry = meter is the walk's; here the loss and its gradient go through a whole step.
void learn(const ModelConfig& config, Events events) {
  Model model(config);
  model.allocate(3);
  const Batch batch = events.batch();
  const double before = model.evaluate(batch).loss;
  EXPECT_EQ(model.evaluate(batch).counted, 7);
  for (int step = 0; step < 30; ++step) {
    std::ranges::fill(model.parameters().gradients(), 0.0F);
    const double now = model.evaluate(batch).loss;
    const LossSum sum = model.forward(batch, 1, 1.0F);
    EXPECT_NEAR(sum.loss, now, 1e-4 * before);
    model.backward(batch, 1.0F);
    const std::span<float> values = model.parameters().values();
    const std::span<float> gradients = model.parameters().gradients();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= 0.01F * gradients[i];
  }
  EXPECT_LT(model.evaluate(batch).loss, before - 1.0) << config.loss;
}

TEST(TimedModel, LearnsALikelihood) {
  ModelConfig config = timed("flash");
  for (const char* loss :
       {"events-exponential", "events-exponential-quadrature", "events-exponential-monte-carlo"}) {
    config.loss = loss;
    learn(config, {});
  }
}

TEST(TimedModel, LearnsWhatWasPublished) {
  ModelConfig config = timed("flash");
  config.loss = "events-published";
  config.classes = 5;  // of two types
  Events events;
  EXPECT_EQ(testing::message_of([&] { learn(config, events); }),
            "[model] an event of type 2; need 0 to 1");
  events.tokens.front() = 1;  // nothing stands before the first event
  learn(config, events);
}

TEST(TimedModel, RefusesWhatHasNoTimes) {
  Model model(timed("flash"));
  model.allocate(3);
  Events events;
  Batch batch = events.batch();
  batch.times = {};
  EXPECT_EQ(testing::message_of([&] { model.evaluate(batch); }),
            "[embedding] 0 times for 8 tokens; need as many");
  Batch wrong = events.batch();
  events.next[3] = 2;
  EXPECT_EQ(testing::message_of([&] { model.evaluate(wrong); }),
            "[model] an event of type 2; need 0 to 1");
  ModelConfig two = timed("flash");
  two.family = Family::kEncoderDecoder;
  two.decoder_layers = 1;
  two.head = HeadKind::kLanguage;
  two.loss = "cross-entropy";
  EXPECT_EQ(testing::message_of([&] { Model m(two); }),
            "[model] temporal positions of two sequences; need an encoder or a decoder");
}

}  // namespace timed_model_test
}  // namespace longspan
