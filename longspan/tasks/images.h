// Labelled grey images, as in MNIST: tell which class an image belongs to.
//
//   DIR/train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, …   IDX
//                                                              the same, packed: ….gz
//   DIR/train-images.npy, train-labels.npy, test-images.npy, test-labels.npy          NumPy
//
// Images are [count, height, width] bytes. Perceptrons see pixels/255; transformers see a token per
// patch, the mean of its pixels in 16 levels. A step's images are a pure function of (seed, step):
// every epoch is a permutation of the training images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "longspan/base/random.h"

namespace longspan {

struct ImageSet {
  std::size_t count = 0;
  std::size_t height = 0;
  std::size_t width = 0;
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;

  std::size_t image_size() const { return height * width; }
};

// IDX, or NumPy where the names end in .npy. Throws Error where images and labels do not fit.
ImageSet read_images(const std::filesystem::path& images, const std::filesystem::path& labels);

class ImageCorpus {
 public:
  explicit ImageCorpus(const std::filesystem::path& directory);

  const ImageSet& training() const { return training_; }
  const ImageSet& test() const { return test_; }
  std::size_t classes() const { return classes_; }
  // Fraction of the test images that belong to the class which is most common among the training
  // images.
  double majority() const;

  // Which images step `step` of batches of this size takes.
  void training_indices(std::uint64_t seed, std::uint64_t step, std::span<std::uint32_t> indices);

  static void features(const ImageSet& set, std::span<const std::uint32_t> indices,
                       std::span<float> to);
  // Tokens of an image cut into patches of side `patch`, row by row; both sides must divide.
  static std::size_t patches(const ImageSet& set, std::size_t patch);
  static void tokens(const ImageSet& set, std::span<const std::uint32_t> indices, std::size_t patch,
                     std::span<std::int32_t> to);
  static void labels(const ImageSet& set, std::span<const std::uint32_t> indices,
                     std::span<std::int32_t> to);

 private:
  ImageSet training_;
  ImageSet test_;
  std::size_t classes_ = 0;
  // The permutation of the epoch that was asked for last.
  std::vector<std::uint32_t> order_;
  RandomKey order_key_ = 0;
};

}  // namespace longspan
