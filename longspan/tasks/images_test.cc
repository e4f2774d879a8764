#include "longspan/tasks/images.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "longspan/io/npy.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace images_test {

using testing::message_of;
using testing::TemporaryDirectory;

const std::filesystem::path kSmall =
    std::filesystem::path(LONGSPAN_SOURCE_DIR) / "data/mnist-small";

TEST(Images, ReadsTheBundledDigits) {
  const ImageCorpus corpus(kSmall);
  EXPECT_EQ(corpus.training().count, 600U);
  EXPECT_EQ(corpus.test().count, 200U);
  EXPECT_EQ(corpus.training().image_size(), 784U);
  EXPECT_EQ(corpus.classes(), 10U);
  EXPECT_DOUBLE_EQ(corpus.majority(), 0.1);
  EXPECT_EQ(corpus.training().labels[0], 5);  // MNIST begins with a five
}

// The same images as NumPy files.
TEST(Images, ReadsNumPyFiles) {
  const ImageCorpus idx(kSmall);
  const TemporaryDirectory scratch;
  const auto write = [&](const std::string& name, const ImageSet& set) {
    const std::vector<std::size_t> shape = {set.count, set.height, set.width};
    write_npy<std::uint8_t>(scratch / (name + "-images.npy"), shape, set.pixels);
    const std::vector<std::int64_t> labels(set.labels.begin(), set.labels.end());
    const std::vector<std::size_t> count = {set.count};
    write_npy<std::int64_t>(scratch / (name + "-labels.npy"), count, labels);
  };
  write("train", idx.training());
  write("test", idx.test());
  const ImageCorpus npy(scratch.path());
  EXPECT_EQ(npy.training().pixels, idx.training().pixels);
  EXPECT_EQ(npy.test().labels, idx.test().labels);
  std::filesystem::remove(scratch / "test-labels.npy");
  EXPECT_NE(message_of([&] { ImageCorpus(scratch.path()); }).find("neither"), std::string::npos);
  write_npy<std::int64_t>(scratch / "test-labels.npy", std::vector<std::size_t>{2},
                          std::vector<std::int64_t>{1, 2});
  EXPECT_NE(message_of([&] { ImageCorpus(scratch.path()); }).find("2 labels"), std::string::npos);
}

TEST(Images, EveryEpochIsAPermutation) {
  ImageCorpus corpus(kSmall);
  std::vector<std::uint32_t> seen;
  std::vector<std::uint32_t> batch(50);
  for (std::uint64_t step = 0; step < 12; ++step) {
    corpus.training_indices(7, step, batch);
    seen.insert(seen.end(), batch.begin(), batch.end());
  }
  std::vector<std::uint32_t> sorted = seen;
  std::ranges::sort(sorted);
  std::vector<std::uint32_t> all(600);
  std::iota(all.begin(), all.end(), 0U);
  EXPECT_EQ(sorted, all);
  EXPECT_NE(seen, all);
  // A step is a function of seed and number, whatever was asked for before.
  std::vector<std::uint32_t> again(50);
  corpus.training_indices(7, 30, again);
  corpus.training_indices(7, 11, again);
  EXPECT_EQ(again, batch);
  corpus.training_indices(8, 11, again);
  EXPECT_NE(again, batch);
}

TEST(Images, FeaturesAndTokens) {
  ImageSet set{.count = 1, .height = 2, .width = 4, .pixels = {0, 255, 32, 32, 0, 1, 32, 47}};
  set.labels = {3};
  const std::vector<std::uint32_t> first = {0};
  std::vector<float> features(8);
  ImageCorpus::features(set, first, features);
  EXPECT_EQ(features[1], 1.0F);
  EXPECT_EQ(features[5], 1.0F / 255.0F);
  ASSERT_EQ(ImageCorpus::patches(set, 2), 2U);
  std::vector<std::int32_t> tokens(2);
  ImageCorpus::tokens(set, first, 2, tokens);
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{64 / 16, 35 / 16}));
  EXPECT_NE(message_of([&] { ImageCorpus::patches(set, 3); }).find("divisor"), std::string::npos);
}

}  // namespace images_test
}  // namespace longspan
