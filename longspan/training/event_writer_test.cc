#include "longspan/training/event_writer.h"

#include <gtest/gtest.h>

#include "longspan/base/intensity.h"
#include "longspan/tasks/events/events.h"
#include "longspan/tasks/events/waits.h"
#include "longspan/testing/check_layer.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace event_writer_test {

std::unique_ptr<Model> model_of(const Task& task, std::size_t length) {
  const ModelNeeds needs = task.needs();
  ModelConfig c;
  c.family = needs.family;
  c.head = needs.head;
  c.loss = needs.loss;
  c.classes = needs.classes;
  c.vocab = needs.vocabulary;
  c.positions = PositionKind::kTemporal;
  c.layers = 1;
  c.d_model = 16;
  c.heads = 2;
  c.max_length = length;
  auto model = std::make_unique<Model>(c);
  model->allocate(1);
  testing::randomize(model->parameters(), 1);
  return model;
}

// To the model itself, what it wrote is a process of its own: gaps are exponential in the time of
// the compensators that it gives them when it reads them.
TEST(EventWriter, WritesTheProcessOfTheModel) {
  EventsTask task({.source = {.examples = 20, .held_out = 2}, .length = 64, .window = 200.0});
  task.open();
  const auto model = model_of(task, 64);
  std::vector<double> rescaled;
  for (RandomKey seed = 0; seed < 40; ++seed) {
    const TimedTokens all = write_events(*model, task, task.begin(""), 30, seed);
    const std::size_t n = all.tokens.size();
    const std::vector<float> times(all.times.begin(), all.times.end());
    const ConstMatrix scores =
        model->logits({.batch = 1, .length = n, .tokens = all.tokens, .times = times});
    for (std::size_t i = 0; i + 1 < n; ++i) {
      const Intensities row(Decay::kExponential, scores.row(i));
      rescaled.push_back(row.integral(all.times[i + 1] - all.times[i]));
    }
  }
  ASSERT_GT(rescaled.size(), 500U);
  EXPECT_GT(exponential_fit(rescaled).p, 0.01);
}

TEST(EventWriter, IsAFunctionOfTheSeedAndGoesOnForLong) {
  EventsTask task({.source = {.examples = 20, .held_out = 2}, .length = 8, .window = 2000.0});
  EXPECT_THROW(task.begin("[1]"), Error);
  task.open();
  const auto model = model_of(task, 8);
  const TimedTokens prompt = task.begin("{\"t\": [0.5, 2], \"m\": [0, 1]}");
  EXPECT_EQ(prompt.tokens, (std::vector<std::int32_t>{2, 0, 1}));
  const TimedTokens one = write_events(*model, task, prompt, 40, 5);
  EXPECT_EQ(one.tokens.size(), 43U);
  EXPECT_EQ(one.times, write_events(*model, task, prompt, 40, 5).times);
  EXPECT_NE(one.times, write_events(*model, task, prompt, 40, 6).times);
  EXPECT_TRUE(task.tell(one).starts_with("{\"t\": [0.5, 2, ")) << task.tell(one);
  EXPECT_EQ(testing::message_of([&] { task.begin("{\"t\": [1], \"m\": [2]}"); }),
            "[events] the sequence: type 0 of an event is 2; need 0 to 1");
}

}  // namespace event_writer_test
}  // namespace longspan
