#include "longspan/base/packed_batch.h"

#include <gtest/gtest.h>

#include "longspan/base/error.h"

namespace longspan {
namespace packed_batch_test {

using Ids = std::vector<std::int32_t>;

template <class T>
std::vector<T> copy_of(std::span<const T> x) {
  return {x.begin(), x.end()};
}

// Two sequences of 3, of which 3 and 1 are real.
struct Padded {
  Ids tokens = {1, 2, 3, 4, 0, 0};
  Ids types = {0, 1, 1, 1, 9, 9};
  Ids lengths = {3, 1};
  Ids targets = {5, 6, 7, 8, -1, -1};
  std::vector<float> times = {0.5F, 1, 2, 3, 0, 0};
  std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0};  // two of each row
  std::vector<std::uint8_t> globals = {1, 0, 0, 1, 0, 0};

  Batch view() const {
    return {.batch = 2,
            .length = 3,
            .tokens = tokens,
            .times = times,
            .targets = targets,
            .values = values,
            .lengths = lengths,
            .token_types = types,
            .globals = globals};
  }
};

TEST(PackedBatch, LeavesOutThePaddingOfEveryRow) {
  const Padded padded;
  PackedMemory memory;
  const Batch packed = pack(padded.view(), Answers::kOfRows, memory);
  EXPECT_TRUE(packed.packed);
  EXPECT_EQ(packed.batch, 2U);
  EXPECT_EQ(packed.length, 3U);
  EXPECT_EQ(packed.rows(), 4U);
  EXPECT_EQ(copy_of(packed.lengths), (Ids{3, 1}));
  EXPECT_EQ(copy_of(packed.tokens), (Ids{1, 2, 3, 4}));
  EXPECT_EQ(copy_of(packed.token_types), (Ids{0, 1, 1, 1}));
  EXPECT_EQ(copy_of(packed.targets), (Ids{5, 6, 7, 8}));
  EXPECT_EQ(copy_of(packed.times), (std::vector<float>{0.5F, 1, 2, 3}));
  EXPECT_EQ(copy_of(packed.values), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(copy_of(packed.globals), (std::vector<std::uint8_t>{1, 0, 0, 1}));
}

TEST(PackedBatch, KeepsTheAnswersOfWholeSequences) {
  Padded padded;
  padded.targets = {5, 6};
  PackedMemory memory;
  const Batch packed = pack(padded.view(), Answers::kOfSequences, memory);
  EXPECT_EQ(copy_of(packed.targets), (Ids{5, 6}));
  EXPECT_EQ(packed.values.size(), 12U);
}

TEST(PackedBatch, IsAsLongAsTheLongest) {
  Padded padded;
  padded.lengths = {2, 1};
  PackedMemory memory;
  const Batch packed = pack(padded.view(), Answers::kOfRows, memory);
  EXPECT_EQ(packed.length, 2U);
  EXPECT_EQ(copy_of(packed.tokens), (Ids{1, 2, 4}));
}

TEST(PackedBatch, SourcesOfOneLengthHaveItToo) {
  Padded padded;
  const Ids source = {1, 2, 3, 4};
  Batch batch = padded.view();
  batch.source_length = 2;
  batch.source = source;
  PackedMemory memory;
  const Batch packed = pack(batch, Answers::kOfRows, memory);
  EXPECT_EQ(copy_of(packed.source_lengths), (Ids{2, 2}));
  EXPECT_EQ(copy_of(packed.source), source);
  EXPECT_EQ(packed.source_rows(), 4U);
}

TEST(PackedBatch, RowsComeBackToTheirPlaces) {
  const Padded padded;
  const std::vector<float> rows = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> memory;
  const ConstMatrix all = unpack({rows.data(), 4, 2}, padded.view(), memory);
  EXPECT_EQ(all.rows, 6U);
  EXPECT_EQ(memory, (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0}));
}

TEST(PackedBatch, PaddingIsWhatLengthsLeaveOut) {
  Padded padded;
  EXPECT_TRUE(has_padding(padded.view()));
  padded.lengths = {3, 3};
  EXPECT_FALSE(has_padding(padded.view()));
  padded.lengths = {3, 0};  // its classifier would have no row to read
  EXPECT_FALSE(has_padding(padded.view()));
  padded.lengths = {};
  EXPECT_FALSE(has_padding(padded.view()));
  padded.lengths = {3, 1};
  PackedMemory memory;
  const Batch packed = pack(padded.view(), Answers::kOfRows, memory);
  EXPECT_FALSE(has_padding(packed));
  PackedMemory other;
  EXPECT_THROW(pack(packed, Answers::kOfRows, other), Error);
}

TEST(PackedBatch, LengthsMustFit) {
  const std::vector<std::int32_t> tokens(8);
  PackedMemory memory;
  const auto refusal = [&](const std::vector<std::int32_t>& lengths) -> std::string {
    try {
      pack({.batch = 2, .length = 4, .tokens = tokens, .lengths = lengths}, Answers::kOfRows,
           memory);
    } catch (const Error& e) {
      return e.what();
    }
    return "none";
  };
  EXPECT_EQ(refusal({2, 4}), "none");
  EXPECT_EQ(refusal({2, 6}), "[pack] a sequence of 6 real tokens; need 1 to 4");
  EXPECT_EQ(refusal({0, 4}), "[pack] a sequence of 0 real tokens; need 1 to 4");
  EXPECT_EQ(refusal({3}), "[pack] 1 lengths for 2 sequences; need one each");
}

}  // namespace packed_batch_test
}  // namespace longspan
