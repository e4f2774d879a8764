#include "longspan/tasks/classes/pixels.h"

#include "longspan/tasks/classes/cifar.h"
#include "longspan/tasks/task_options.h"

namespace longspan {

namespace {

void add_images(const ImageSet& from, std::size_t first, std::size_t end, Labelled& to) {
  const std::span<const std::uint8_t> pixels(from.pixels);
  for (std::size_t i = first; i < end; ++i) {
    to.add(pixels.subspan(i * from.image_size(), from.image_size()), from.labels[i]);
  }
}

LabelledSplits splits_of(const ImageSet& training, const ImageSet& test) {
  LabelledSplits all;
  const std::size_t kept = training.count - training.count / 10;
  add_images(training, 0, kept, all.training);
  add_images(training, kept, training.count, all.validation);
  add_images(test, 0, test.count, all.test);
  return all;
}

}  // namespace

TaskOptions PixelTask::options() const { return options_of(config_); }

void PixelTask::open() {
  ClassTask::open();
  check_size(kName, trained_, size());
}

std::string PixelTask::describe() const { return "pixels of images, " + describe_splits(); }

LabelledSplits PixelTask::read() const { return read_pixels(config_.data); }

LabelledSplits read_pixels(const std::filesystem::path& directory) {
  if (has_cifar(directory)) {
    const CifarSets sets = read_cifar(directory);
    return splits_of(sets.training, sets.test);
  }
  const ImageCorpus corpus(directory);
  return splits_of(corpus.training(), corpus.test());
}

}  // namespace longspan
