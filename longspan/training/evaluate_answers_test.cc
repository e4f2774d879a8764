#include "longspan/training/evaluate_answers.h"

#include <gtest/gtest.h>

#include "longspan/tasks/pairs/translate.h"
#include "longspan/tasks/reverse.h"
#include "longspan/testing/check_layer.h"
#include "longspan/testing/temporary_directory.h"
#include "longspan/training/evaluate.h"

namespace longspan {
namespace evaluate_answers_test {

using testing::message_of;

std::unique_ptr<Model> model_for(const Task& task, RandomKey seed) {
  const ModelNeeds needs = task.needs();
  ModelConfig c;
  c.family = needs.family;
  c.layers = 1;
  c.decoder_layers = needs.family == Family::kEncoderDecoder ? 1 : 0;
  c.d_model = 16;
  c.heads = 2;
  c.vocab = needs.vocabulary;
  c.max_length = std::max(needs.length, needs.source_length);
  auto model = std::make_unique<Model>(c);
  model->allocate(seed);
  testing::randomize(model->parameters(), seed);
  return model;
}

// A target of a character is right where its two tokens are the likeliest, which is where greedy
// generation writes it: with few characters a random model is right now and then.
TEST(EvaluateAnswers, GreedyOnesAreThoseWhoseTargetsAreTheLikeliest) {
  const testing::TemporaryDirectory scratch;
  std::string lines;
  for (const char* source : {"a", "b", "ab", "ba", "aa", "bb", "aab", "bba", "abab", "baba"}) {
    for (const char* target : {"a", "b", "ab", "bb"})
      lines += std::string(source) + '\t' + target + '\n';
  }
  testing::write_bytes(scratch / "a_train.tsv", lines);
  TranslateTask task({.source = {.data = (scratch / "a_train.tsv").string()}, .length = 4});
  task.open();
  std::size_t right = 0;
  for (RandomKey seed = 1; seed <= 30; ++seed) {
    const auto model = model_for(task, seed);
    const Judgement judged = evaluate(*model, task, Split::kTraining, {.batch = 1});
    const AnswerTally tally = evaluate_answers(*model, task, Split::kTraining, 1000, {.beams = 1});
    EXPECT_EQ(tally.counted, 40U);
    EXPECT_DOUBLE_EQ(tally.share(), judged.at("sequence_accuracy")) << seed;
    right += tally.exact;
    const AnswerTally some = evaluate_answers(*model, task, Split::kTraining, 7, {.beams = 3});
    EXPECT_EQ(some.counted, 7U);
  }
  EXPECT_GT(right, 0U);
}

TEST(EvaluateAnswers, SayHowTheyWereWritten) {
  const AnswerTally tally{.counted = 8, .exact = 2};
  EXPECT_EQ(tally.metric({.beams = 1}).name, "generated_exact");
  EXPECT_EQ(tally.metric({.beams = 1}).value, 0.25);
  EXPECT_EQ(tally.metric({.beams = 1}).text, "25.00 % of 8 written greedily");
  EXPECT_EQ(tally.metric({.beams = 5}).text, "25.00 % of 8 written with 5 beams");
}

TEST(EvaluateAnswers, NeedExamples) {
  ReverseTask task(ReverseTask::Config{});
  const auto model = model_for(task, 1);
  EXPECT_EQ(evaluate_answers(*model, task, task.held_out(), 3, {}).counted, 3U);
  EXPECT_EQ(message_of([&] { evaluate_answers(*model, task, Split::kTest, 3, {}); }),
            "[eval] no examples of the split test to answer; need at least 1");
}

}  // namespace evaluate_answers_test
}  // namespace longspan
