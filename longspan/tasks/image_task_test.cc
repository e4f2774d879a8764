#include "longspan/tasks/image_task.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace image_task_test {

const std::string kSmall = LONGSPAN_SOURCE_DIR "/data/mnist-small";

TEST(ImageTask, GivesPixelsToAPerceptron) {
  ImageTask task({.data = kSmall});
  task.open();
  const ModelNeeds needs = task.needs();
  EXPECT_EQ(needs.family, "mlp");
  EXPECT_EQ(needs.head, "classifier");
  EXPECT_EQ(needs.inputs, 784U);
  EXPECT_EQ(needs.classes, 10U);
  EXPECT_EQ(needs.length, 1U);
  BatchMemory memory;
  const Batch batch = task.training_batch(7, 3, 5, memory);
  EXPECT_EQ(batch.features.size(), 5U * 784U);
  EXPECT_TRUE(batch.tokens.empty());
  ImageCorpus corpus(kSmall);
  std::vector<std::uint32_t> indices(5);
  corpus.training_indices(7, 3, indices);
  std::vector<std::int32_t> labels(5);
  ImageCorpus::labels(corpus.training(), indices, labels);
  EXPECT_TRUE(std::ranges::equal(batch.targets, labels));
}

TEST(ImageTask, GivesPatchesToAnEncoder) {
  ImageTask task({.data = kSmall, .model = "encoder", .patch = 7});
  task.open();
  EXPECT_EQ(task.needs().length, 16U);
  BatchMemory memory;
  const Batch batch = task.batch(Split::kTest, {.first = 3, .count = 2}, memory);
  EXPECT_EQ(batch.length, 16U);
  EXPECT_EQ(batch.tokens.size(), 32U);
  EXPECT_TRUE(batch.features.empty());
  EXPECT_EQ(batch.targets[1], ImageCorpus(kSmall).test().labels[4]);
  EXPECT_EQ(task.held_out(), Split::kTest);
  EXPECT_EQ(task.examples(Split::kTest), 200U);
  EXPECT_EQ(task.examples(Split::kValidation), 0U);
  const Judgement q = task.judge(Split::kTest, {.loss = 100.0, .counted = 200, .correct = 50});
  EXPECT_EQ(q.line, "loss 0.5000, accuracy 25.00 %");
  EXPECT_EQ(q.subject, "200 test images");
}

TEST(ImageTask, CountsImages) {
  for (const char* model : {"mlp", "encoder"}) {
    ImageTask task({.data = kSmall, .model = model});
    task.open();
    BatchMemory memory;
    EXPECT_EQ(task.unit(), "images");
    EXPECT_EQ(task.units(task.training_batch(7, 3, 5, memory)), 5U) << model;
  }
}

TEST(ImageTask, PatchesAreNothingToAPerceptron) {
  EXPECT_EQ(ImageTask({.model = "mlp"}).idle("patch"),
            "the model mlp, which reads pixels; need encoder");
  EXPECT_EQ(ImageTask({.model = "mlp"}).idle("data"), "");
  EXPECT_EQ(ImageTask({.model = "encoder"}).idle("patch"), "");
}

TEST(ImageTask, OtherImagesHaveAnotherChecksum) {
  ImageTask task({.data = kSmall});
  const std::string closed = task.checksum();
  task.open();
  EXPECT_EQ(task.checksum(), closed);
  EXPECT_EQ(closed.size(), 16U);
  const testing::TemporaryDirectory scratch;
  std::filesystem::copy(kSmall, scratch.path());
  EXPECT_EQ(ImageTask({.data = scratch.path().string()}).checksum(), closed);
  for (const auto& file : std::filesystem::directory_iterator(scratch.path())) {
    const std::string name = file.path().filename().string();
    if (!name.starts_with("train-labels")) continue;
    std::string bytes = testing::read_bytes(file.path());
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    testing::write_bytes(file.path(), bytes);
  }
  EXPECT_NE(ImageTask({.data = scratch.path().string()}).checksum(), closed);
}

TEST(ImageTask, SaysWhatItCannotDo) {
  ImageTask task({.data = kSmall, .model = Family::kDecoder});
  task.open();
  EXPECT_EQ(testing::message_of([&] { task.needs(); }),
            "[images] model is decoder; need mlp or encoder");
  EXPECT_EQ(testing::message_of([&] { task.encode("7"); }),
            "[images] its models read no text; need a task of tokens");
}

// Two images of one pixel, of these classes.
void write_two(const std::filesystem::path& directory, char first, char second) {
  const std::string images("\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x01pq", 18);
  const std::string labels = std::string("\0\0\x08\x01\0\0\0\x02", 8) + first + second;
  for (const char* part : {"train", "t10k"}) {
    testing::write_bytes(directory / (std::string(part) + "-images-idx3-ubyte"), images);
    testing::write_bytes(directory / (std::string(part) + "-labels-idx1-ubyte"), labels);
  }
}

TEST(ImageTask, OneClassIsRefused) {
  const testing::TemporaryDirectory scratch;
  const std::string data = scratch.path().string();
  write_two(scratch.path(), 0, 1);
  EXPECT_EQ(testing::message_of([&] { ImageTask({.data = data}).open(); }), "");
  write_two(scratch.path(), 1, 1);
  EXPECT_EQ(testing::message_of([&] { ImageTask({.data = data}).open(); }),
            "[images] " + data + ": all 2 images are of class 1; need two classes");
}

}  // namespace image_task_test
}  // namespace longspan
