#include "longspan/tasks/classes/cifar.h"

#include <fmt/core.h>

#include "longspan/base/error.h"
#include "longspan/io/file.h"

namespace longspan {

namespace {

constexpr std::size_t kSide = 32;
constexpr std::size_t kPixels = kSide * kSide;
constexpr std::size_t kRecord = 1 + 3 * kPixels;

// In thousandths, with half of one to round.
std::uint8_t grey(unsigned red, unsigned green, unsigned blue) {
  return static_cast<std::uint8_t>((299 * red + 587 * green + 114 * blue + 500) / 1000);
}

void add_records(const std::filesystem::path& path, ImageSet& to) {
  const std::string bytes = read_file("cifar", path, kMostData);
  require(!bytes.empty() && bytes.size() % kRecord == 0,
          "[cifar] {} has {} bytes; need records of {}", path.string(), bytes.size(), kRecord);
  for (std::size_t at = 0; at < bytes.size(); at += kRecord) {
    const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[at + i]); };
    require(byte(0) < 10, "[cifar] {}: record {} has the label {}; need 0 to 9", path.string(),
            at / kRecord, byte(0));
    to.labels.push_back(byte(0));
    for (std::size_t i = 1; i <= kPixels; ++i) {
      to.pixels.push_back(grey(byte(i), byte(i + kPixels), byte(i + 2 * kPixels)));
    }
  }
  to.count = to.labels.size();
  to.height = to.width = kSide;
}

}  // namespace

bool has_cifar(const std::filesystem::path& directory) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(directory / "data_batch_1.bin", ignored);
}

CifarSets read_cifar(const std::filesystem::path& directory) {
  CifarSets sets;
  std::error_code ignored;
  const auto there = [&](int i) {
    return std::filesystem::exists(directory / fmt::format("data_batch_{}.bin", i), ignored);
  };
  for (int i = 1; i == 1 || there(i); ++i) {
    add_records(directory / fmt::format("data_batch_{}.bin", i), sets.training);
  }
  add_records(directory / "test_batch.bin", sets.test);
  return sets;
}

}  // namespace longspan
