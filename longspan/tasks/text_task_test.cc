#include "longspan/tasks/text_task.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace text_task_test {

using testing::message_of;
using testing::TemporaryDirectory;
using testing::write_bytes;

class TextTaskTest : public ::testing::Test {
 protected:
  TextTaskTest() {
    std::string text;
    for (int i = 0; i < 1000; ++i) text += static_cast<char>('a' + i * i % 26);
    write_bytes(path_, text);
  }
  TextTask task(std::size_t length) const {
    return TextTask({.data = path_.string(), .vocabulary = "bytes", .length = length});
  }

  TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_ / "data.txt";
};

TEST_F(TextTaskTest, BatchesAreTheCorpus) {
  TextTask text = task(8);
  text.open();
  const TextCorpus corpus(path_, "bytes");
  BatchMemory memory;
  std::vector<std::int32_t> inputs(24);
  std::vector<std::int32_t> targets(24);
  const Batch training = text.training_batch(7, 5, 3, memory);
  corpus.training_batch(7, 5, {8, inputs, targets});
  EXPECT_TRUE(std::ranges::equal(training.tokens, inputs));
  EXPECT_TRUE(std::ranges::equal(training.targets, targets));
  const Batch held_out = text.batch(Split::kValidation, {.first = 2, .count = 3}, memory);
  corpus.validation_batch(2, {8, inputs, targets});
  EXPECT_TRUE(std::ranges::equal(held_out.tokens, inputs));
  EXPECT_TRUE(std::ranges::equal(held_out.targets, targets));
  // Every fourth window, as streams are read.
  const Batch streams = text.batch(Split::kAll, {.first = 1, .count = 2, .stride = 4}, memory);
  corpus.batch(5, {8, std::span(inputs).first(8), std::span(targets).first(8)});
  EXPECT_TRUE(std::ranges::equal(streams.tokens.last(8), std::span(inputs).first(8)));
  EXPECT_EQ(text.examples(Split::kValidation), corpus.validation_windows(8));
  EXPECT_EQ(text.examples(Split::kAll), corpus.windows(8));
  EXPECT_EQ(text.examples(Split::kTest), 0U);
}

TEST_F(TextTaskTest, NeedsAndMetrics) {
  TextTask text = task(8);
  text.open();
  EXPECT_EQ(text.needs().family, "decoder");
  EXPECT_EQ(text.needs().vocabulary, 256U);
  EXPECT_EQ(text.needs().length, 8U);
  EXPECT_EQ(text.describe(), "1000 tokens of 256 kinds");
  const Judgement q =
      text.judge(Split::kValidation, {.loss = 20.0, .counted = 10, .correct = 4, .bytes = 10});
  EXPECT_DOUBLE_EQ(q.loss(), 2.0);
  EXPECT_DOUBLE_EQ(q.metrics[1].value, std::exp(2.0));
  EXPECT_DOUBLE_EQ(q.metrics[2].value, 2.0 / std::log(2.0));
  EXPECT_DOUBLE_EQ(q.metrics[3].value, 0.4);
  EXPECT_EQ(q.line, "loss 2.0000, perplexity 7.39");
  EXPECT_EQ(q.subject, "validation of " + path_.string() + ", 10 tokens");
}

// A trained model's vocabulary is enough to read and write; the file is not.
TEST_F(TextTaskTest, SpeaksWithoutItsFile) {
  TextTask text({.data = (directory_ / "gone").string()});
  text.use(Vocabulary::characters({'a', 'b'}));
  EXPECT_EQ(text.encode("ba"), (std::vector<std::int32_t>{1, 0}));
  EXPECT_EQ(text.decode(std::vector<std::int32_t>{1, 0}), "ba");
  EXPECT_NE(message_of([&] { text.open(); }).find("does not exist"), std::string::npos);
}

TEST_F(TextTaskTest, TooLittleTextIsRefused) {
  TextTask text = task(100);
  text.open();
  EXPECT_EQ(message_of([&] { text.examples(Split::kTraining); }),
            "[text] " + path_.string() +
                " has 1000 tokens; need at least 1001 for length 100 (one tenth is for "
                "validation)");
}

}  // namespace text_task_test
}  // namespace longspan
