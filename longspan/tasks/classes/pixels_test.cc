#include "longspan/tasks/classes/pixels.h"

#include <gtest/gtest.h>

#include "longspan/tasks/classes/cifar.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace pixels_test {

using testing::message_of;

TEST(Pixels, AreTheBytesOfTheImages) {
  const std::string data = LONGSPAN_SOURCE_DIR "/data/mnist-small";
  PixelTask task({.data = data});
  task.open();
  EXPECT_EQ(task.examples(Split::kTraining), 540U);
  EXPECT_EQ(task.examples(Split::kValidation), 60U);
  EXPECT_EQ(task.examples(Split::kTest), 200U);
  EXPECT_EQ(task.needs().length, 784U);
  EXPECT_EQ(task.needs().classes, 10U);
  const ImageCorpus corpus(data);
  BatchMemory memory;
  const Batch batch = task.batch(Split::kTest, {.first = 7, .count = 1}, memory);
  EXPECT_EQ(batch.targets[0], corpus.test().labels[7]);
  for (std::size_t i = 0; i < 784; ++i) {
    EXPECT_EQ(batch.tokens[i], corpus.test().pixels[7 * 784 + i]);
  }
}

TEST(Pixels, OtherSizesThanTrainedAreRefused) {
  const std::string data = LONGSPAN_SOURCE_DIR "/data/mnist-small";
  PixelTask trained({.data = data});
  EXPECT_EQ(trained.needs().vocabulary, 256U) << "which is known before it is opened";
  trained.open();
  EXPECT_EQ(trained.learned(), (TaskOptions{{"height", "28"}, {"width", "28"}}));
  PixelTask same({.data = data});
  same.use_learned(trained.learned());
  same.open();
  PixelTask other({.data = data});
  other.use_learned({{"height", "6"}, {"width", "6"}});
  EXPECT_EQ(message_of([&] { other.open(); }),
            "[pixels] 28x28 images; the model was trained on 6x6");
  EXPECT_EQ(message_of([&] {
              other.use_learned({{"height", "6"}});
            }),
            "[pixels] width is ''; need a whole number from 1 to 1e9");
  EXPECT_EQ(ImageSize::of_pixels(12), (ImageSize{1, 12}));
}

std::string record(char label, char red, char green, char blue) {
  return label + std::string(1024, red) + std::string(1024, green) + std::string(1024, blue);
}

TEST(Pixels, CifarBecomesGrey) {
  const testing::TemporaryDirectory scratch;
  testing::write_bytes(scratch / "data_batch_1.bin", record(3, 100, 0, 0) + record(4, 0, 100, 0));
  testing::write_bytes(scratch / "data_batch_2.bin", record(9, 0, 0, 100));
  testing::write_bytes(scratch / "test_batch.bin", record(0, '\xFF', '\xFF', '\xFF'));
  const CifarSets sets = read_cifar(scratch.path());
  EXPECT_EQ(sets.training.labels, (std::vector<std::int32_t>{3, 4, 9}));
  EXPECT_EQ(sets.training.pixels[0], 30);
  EXPECT_EQ(sets.training.pixels[1024], 59);
  EXPECT_EQ(sets.training.pixels[2048 + 1023], 11);
  EXPECT_EQ(sets.test.pixels[5], 255);
  PixelTask task({.data = scratch.path().string()});
  task.open();
  EXPECT_EQ(task.needs().length, 1024U);
  EXPECT_EQ(task.needs().classes, 10U);
}

TEST(Pixels, BadRecordsAreRefused) {
  const testing::TemporaryDirectory scratch;
  testing::write_bytes(scratch / "data_batch_1.bin", record(3, 1, 2, 3) + "x");
  EXPECT_NE(message_of([&] { read_cifar(scratch.path()); }).find("has 3074 bytes; need records of"),
            std::string::npos);
  testing::write_bytes(scratch / "data_batch_1.bin", record(3, 1, 2, 3) + record(10, 1, 2, 3));
  EXPECT_NE(message_of([&] {
              read_cifar(scratch.path());
            }).find("record 1 has the label 10; need 0 to 9"),
            std::string::npos);
}

}  // namespace pixels_test
}  // namespace longspan
