#include "longspan/tasks/images.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "longspan/base/error.h"
#include "longspan/io/idx.h"
#include "longspan/io/npy.h"

namespace longspan {

namespace {

constexpr unsigned kLevelShift = 4;  // 256 values of a pixel become 16 tokens

std::vector<std::int32_t> npy_labels(const std::filesystem::path& path) {
  const auto convert = [&](const auto& array) {
    std::vector<std::int32_t> labels;
    labels.reserve(array.data.size());
    for (const auto label : array.data) {
      require(label >= 0 && label < 65536, "[images] {}: label {} of image {}; need 0 to 65535",
              path.string(), label, labels.size());
      labels.push_back(static_cast<std::int32_t>(label));
    }
    return labels;
  };
  const std::string_view type = npy_type_of(path);
  if (type == "<i8") return convert(read_npy<std::int64_t>(path));
  if (type == "<i4") return convert(read_npy<std::int32_t>(path));
  return convert(read_npy<std::uint8_t>(path));
}

IdxArray bytes_of(const std::filesystem::path& path) {
  if (path.extension() != ".npy") return read_idx(path);
  NpyArray<std::uint8_t> array = read_npy<std::uint8_t>(path);
  return {std::move(array.shape), std::move(array.data)};
}

std::filesystem::path existing(const std::filesystem::path& directory, const std::string& idx,
                               const std::string& npy) {
  std::error_code ignored;
  const bool there = std::filesystem::exists(directory, ignored);
  require(there, "[images] {} does not exist; need a directory of images", directory.string());
  require(std::filesystem::is_directory(directory, ignored),
          "[images] {} is no directory; need a directory of images", directory.string());
  for (const std::string& name : {idx, idx + ".gz"}) {
    if (std::filesystem::exists(directory / name, ignored)) return directory / name;
  }
  require(
      std::filesystem::exists(directory / npy, ignored),
      "[images] '{}' has neither {}, packed as .gz or not, nor {}; need a directory with one of "
      "them",
      directory.string(), idx, npy);
  return directory / npy;
}

}  // namespace

ImageSet read_images(const std::filesystem::path& images, const std::filesystem::path& labels) {
  IdxArray array = bytes_of(images);
  require(array.shape.size() == 3, "[images] {}: {} dimensions; need images, rows and columns",
          images.string(), array.shape.size());
  require(!array.data.empty(), "[images] {}: {} images of {}x{} pixels; need at least 1 of each",
          images.string(), array.shape[0], array.shape[1], array.shape[2]);
  ImageSet set{.count = array.shape[0], .height = array.shape[1], .width = array.shape[2]};
  require(set.count <= std::numeric_limits<std::uint32_t>::max(),
          "[images] {}: {} images; need "
          "fewer than 2^32",
          images.string(), set.count);
  set.pixels = std::move(array.data);
  if (labels.extension() == ".npy") {
    set.labels = npy_labels(labels);
  } else {
    const IdxArray bytes = read_idx(labels);
    set.labels.assign(bytes.data.begin(), bytes.data.end());
  }
  require(set.labels.size() == set.count, "[images] {} labels in {} for {} images",
          set.labels.size(), labels.string(), set.count);
  return set;
}

ImageCorpus::ImageCorpus(const std::filesystem::path& directory)
    : training_(read_images(existing(directory, "train-images-idx3-ubyte", "train-images.npy"),
                            existing(directory, "train-labels-idx1-ubyte", "train-labels.npy"))),
      test_(read_images(existing(directory, "t10k-images-idx3-ubyte", "test-images.npy"),
                        existing(directory, "t10k-labels-idx1-ubyte", "test-labels.npy"))) {
  require(training_.height == test_.height && training_.width == test_.width,
          "[images] {}: {}x{} for training and {}x{} for testing; need one size",
          directory.string(), training_.height, training_.width, test_.height, test_.width);
  for (const ImageSet* set : {&training_, &test_}) {
    const auto largest = static_cast<std::size_t>(*std::ranges::max_element(set->labels));
    classes_ = std::max(classes_, largest + 1);
  }
}

double ImageCorpus::majority() const {
  std::vector<std::size_t> count(classes_);
  for (const std::int32_t label : training_.labels) ++count[static_cast<std::size_t>(label)];
  const auto common = static_cast<std::int32_t>(std::ranges::max_element(count) - count.begin());
  return static_cast<double>(std::ranges::count(test_.labels, common)) /
         static_cast<double>(test_.count);
}

void ImageCorpus::training_indices(std::uint64_t seed, std::uint64_t step,
                                   std::span<std::uint32_t> indices) {
  const std::uint64_t n = training_.count;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::uint64_t at = step * indices.size() + i;
    const RandomKey key = derive(derive(seed, "images"), at / n);
    if (order_.empty() || key != order_key_) {
      // Fisher and Yates.
      order_.resize(n);
      std::iota(order_.begin(), order_.end(), 0U);
      for (std::uint64_t j = n; j-- > 1;) std::swap(order_[j], order_[random_below(key, j, j + 1)]);
      order_key_ = key;
    }
    indices[i] = order_[at % n];
  }
}

void ImageCorpus::features(const ImageSet& set, std::span<const std::uint32_t> indices,
                           std::span<float> to) {
  const std::size_t size = set.image_size();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::uint8_t* const from = set.pixels.data() + indices[i] * size;
    for (std::size_t j = 0; j < size; ++j) {
      to[i * size + j] = static_cast<float>(from[j]) * (1.0F / 255.0F);
    }
  }
}

std::size_t ImageCorpus::patches(const ImageSet& set, std::size_t patch) {
  require(patch > 0 && set.height % patch == 0 && set.width % patch == 0,
          "[images] patches of side {} in images of {}x{}; need a divisor of both", patch,
          set.height, set.width);
  return set.height / patch * (set.width / patch);
}

void ImageCorpus::tokens(const ImageSet& set, std::span<const std::uint32_t> indices,
                         std::size_t patch, std::span<std::int32_t> to) {
  const std::size_t across = set.width / patch;
  const std::size_t count = patches(set, patch);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::uint8_t* const from = set.pixels.data() + indices[i] * set.image_size();
    for (std::size_t p = 0; p < count; ++p) {
      std::size_t sum = 0;
      for (std::size_t r = 0; r < patch; ++r) {
        const std::uint8_t* const row =
            from + (p / across * patch + r) * set.width + p % across * patch;
        for (std::size_t c = 0; c < patch; ++c) sum += row[c];
      }
      to[i * count + p] = static_cast<std::int32_t>((sum / (patch * patch)) >> kLevelShift);
    }
  }
}

void ImageCorpus::labels(const ImageSet& set, std::span<const std::uint32_t> indices,
                         std::span<std::int32_t> to) {
  for (std::size_t i = 0; i < indices.size(); ++i) to[i] = set.labels[indices[i]];
}

}  // namespace longspan
