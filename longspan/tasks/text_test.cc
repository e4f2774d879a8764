#include "longspan/tasks/text.h"

#include <gtest/gtest.h>

#include <set>

#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace text_test {

using testing::message_of;
using testing::TemporaryDirectory;
using testing::write_bytes;

class TextTest : public ::testing::Test {
 protected:
  // Byte i of the file is i mod 251, so that a window tells where it starts.
  TextCorpus corpus(std::size_t size) {
    std::string text(size, '\0');
    for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i % 251);
    write_bytes(path_, text);
    return {path_, "bytes"};
  }
  TokenBatch batch(std::size_t rows, std::size_t length) {
    inputs_.assign(rows * length, -1);
    targets_.assign(rows * length, -1);
    return {length, inputs_, targets_};
  }

  TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_ / "data.txt";
  std::vector<std::int32_t> inputs_;
  std::vector<std::int32_t> targets_;
};

TEST_F(TextTest, SplitsNineToOne) {
  for (const std::size_t size : {11UL, 100UL, 101UL, 109UL, 1009UL}) {
    const TextCorpus text = corpus(size);
    EXPECT_EQ(text.size(), size);
    EXPECT_EQ(text.training_size(), size * 9 / 10);
    EXPECT_EQ(text.training_size() + text.validation_size(), size);
  }
}

TEST_F(TextTest, TrainingWindowsAreConsecutiveTokensOfTheFirstPart) {
  const TextCorpus text = corpus(250);  // 225 for training: no byte value twice
  constexpr std::size_t kLength = 24;
  std::set<std::int32_t> starts;
  for (std::uint64_t step = 0; step < 400; ++step) {
    text.training_batch(1, step, batch(7, kLength));
    for (std::size_t row = 0; row < 7; ++row) {
      const std::int32_t start = inputs_[row * kLength];
      starts.insert(start);
      for (std::size_t i = 0; i < kLength; ++i) {
        ASSERT_EQ(inputs_[row * kLength + i], start + static_cast<std::int32_t>(i));
        ASSERT_EQ(targets_[row * kLength + i], start + static_cast<std::int32_t>(i) + 1);
      }
      ASSERT_LT(targets_[row * kLength + kLength - 1], 225);
    }
  }
  // Every start occurs: 0 … 225 - 25.
  EXPECT_EQ(starts.size(), 201U);
  EXPECT_EQ(*starts.begin(), 0);
  EXPECT_EQ(*starts.rbegin(), 200);
}

TEST_F(TextTest, WindowsDependOnSeedStepAndRowAlone) {
  const TextCorpus text = corpus(100'000);
  text.training_batch(3, 17, batch(5, 8));
  const auto five = inputs_;
  text.training_batch(3, 17, batch(3, 8));
  EXPECT_EQ(inputs_, std::vector<std::int32_t>(five.begin(), five.begin() + 24));
  text.training_batch(3, 18, batch(5, 8));
  EXPECT_NE(inputs_, five);
  text.training_batch(4, 17, batch(5, 8));
  EXPECT_NE(inputs_, five);
}

TEST_F(TextTest, ValidationWindowsCoverTheLastPartInOrder) {
  const TextCorpus text = corpus(1000);  // tokens 900 … 999
  EXPECT_EQ(text.validation_windows(33), 3U);
  EXPECT_EQ(text.validation_windows(34), 2U);
  EXPECT_EQ(text.validation_windows(99), 1U);
  EXPECT_EQ(text.validation_windows(100), 0U);
  text.validation_batch(1, batch(2, 33));
  for (std::size_t i = 0; i < 66; ++i) {
    EXPECT_EQ(inputs_[i], static_cast<std::int32_t>((900 + 33 + i) % 251));
    EXPECT_EQ(targets_[i], static_cast<std::int32_t>((900 + 33 + i + 1) % 251));
  }
  EXPECT_EQ(text.windows(111), 9U);
  text.batch(8, batch(1, 111));
  EXPECT_EQ(targets_.back(), 999 % 251);
}

TEST_F(TextTest, CharactersAndAStoredVocabulary) {
  std::string words;
  for (int i = 0; i < 50; ++i) words += "né ";
  write_bytes(path_, words);
  const TextCorpus text(path_, "characters");
  EXPECT_EQ(text.size(), 150U);
  EXPECT_EQ(text.vocabulary().code_points(), (std::vector<std::uint32_t>{' ', 'n', 0xE9}));
  const TextCorpus again(path_, Vocabulary::characters(text.vocabulary().code_points()));
  again.batch(0, batch(1, 6));
  EXPECT_EQ(inputs_, (std::vector<std::int32_t>{1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(again.vocabulary().decode(inputs_), "né né ");
}

TEST_F(TextTest, Messages) {
  const std::string shown = path_.string();
  const TextCorpus text = corpus(40);
  EXPECT_EQ(message_of([&] { text.require_length(64); }),
            "[text] " + shown +
                " has 40 tokens; need at least 641 for length 64 (one tenth is for validation)");
  EXPECT_EQ(message_of([&] { text.training_batch(0, 0, batch(1, 64)); }),
            message_of([&] { text.require_length(64); }));
  EXPECT_EQ(message_of([&] { text.require_length(0); }), "[text] the length is 0; need at least 1");
  // The number in the message is exact.
  EXPECT_NE(message_of([&] { corpus(640).require_length(64); }), "");
  EXPECT_EQ(message_of([&] { corpus(641).require_length(64); }), "");
  EXPECT_NE(message_of([&] { corpus(10).require_length(1); }), "");
  const TextCorpus tiny = corpus(11);
  tiny.training_batch(0, 0, batch(4, 1));
  tiny.validation_batch(0, batch(1, 1));
  EXPECT_EQ(message_of([&] { tiny.validation_batch(1, batch(1, 1)); }),
            "[text] got windows 1 to 2; " + shown + " has 1 of length 1");
  std::vector<std::int32_t> room(3);
  EXPECT_NE(message_of([&] { tiny.batch(0, {2, room, room}); }), "");
  EXPECT_EQ(message_of([&] { TextCorpus(directory_ / "no.txt", "bytes"); }),
            "[text] " + (directory_ / "no.txt").string() + " does not exist");
  write_bytes(path_, "caf\xE9");
  EXPECT_EQ(message_of([&] { TextCorpus(path_, "characters"); }),
            "[vocabulary] " + shown +
                " is not UTF-8 at byte 3; need UTF-8 text, or the vocabulary bytes");
  write_bytes(path_, "");
  EXPECT_NE(message_of([&] { TextCorpus(path_, "bytes").require_length(1); }), "");
}

}  // namespace text_test
}  // namespace longspan
