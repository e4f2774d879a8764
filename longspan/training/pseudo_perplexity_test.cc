#include "longspan/training/pseudo_perplexity.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longspan/tasks/copy.h"
#include "longspan/tasks/masked_text.h"
#include "longspan/testing/check_layer.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace pseudo_perplexity_test {

using testing::message_of;

struct Given {
  Given() {
    std::string text;
    for (std::size_t i = 0; i < 2000; ++i) text += static_cast<char>('a' + random_below(3, i, 5));
    testing::write_bytes(scratch / "text", text);
    task.open();
    ModelConfig c;
    c.family = Family::kEncoder;
    c.layers = 1;
    c.d_model = 16;
    c.heads = 2;
    c.vocab = task.needs().vocabulary;
    c.max_length = 7;
    model = std::make_unique<Model>(c);
    model->allocate(1);
    testing::randomize(model->parameters(), 1);
  }
  // −log p of the token at `at` of window w, which no other copy of the window is beside.
  double surprise(std::size_t w, std::size_t at) {
    BatchMemory memory;
    TextTask plain({.data = (scratch / "text").string(), .length = 7});
    plain.open();
    plain.batch(Split::kValidation, {.first = w, .count = 1}, memory);
    const auto token = static_cast<std::size_t>(memory.tokens[at]);
    memory.tokens[at] = 5;
    const ConstMatrix scores = model->logits({.batch = 1, .length = 7, .tokens = memory.tokens});
    double sum = 0.0;
    for (const float s : scores.row(at)) sum += std::exp(static_cast<double>(s));
    return std::log(sum) - scores.row(at)[token];
  }

  testing::TemporaryDirectory scratch;
  MaskedTextTask task{{.data = (scratch / "text").string(), .length = 7}};
  std::unique_ptr<Model> model;
};

TEST(PseudoPerplexity, IsThatOfEveryTokenHiddenAlone) {
  Given given;
  double sum = 0.0;
  for (std::size_t w = 0; w < 3; ++w) {
    for (std::size_t at = 0; at < 7; ++at) sum += given.surprise(w, at);
  }
  for (const std::size_t rows : {1, 4, 7, 50}) {
    const PseudoTally tally =
        evaluate_pseudo(*given.model, given.task, Split::kValidation, 3, rows);
    EXPECT_EQ(tally.counted, 21U);
    EXPECT_NEAR(tally.loss, sum, 1e-4) << rows;
    EXPECT_EQ(tally.metric().name, "pseudo_perplexity");
    EXPECT_NEAR(tally.metric().value, std::exp(sum / 21), 1e-4);
  }
  const std::size_t all = given.task.examples(Split::kValidation);
  EXPECT_EQ(evaluate_pseudo(*given.model, given.task, Split::kValidation, 1000, 9).counted,
            7 * all);
}

TEST(PseudoPerplexity, NeedsATaskThatHides) {
  Given given;
  CopyTask copy(CopyTask::Config{});
  EXPECT_EQ(message_of([&] { evaluate_pseudo(*given.model, copy, Split::kValidation, 3, 2); }),
            "[eval] the task copy hides no tokens; need one that does");
  EXPECT_EQ(message_of([&] { evaluate_pseudo(*given.model, given.task, Split::kTest, 3, 2); }),
            "[eval] no windows of the split test to hide tokens of; need at least 1");
}

}  // namespace pseudo_perplexity_test
}  // namespace longspan
