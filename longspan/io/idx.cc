#include "longspan/io/idx.h"

#include <array>
#include <span>

#include "longspan/base/error.h"
#include "longspan/io/file.h"

namespace longspan {

namespace {

constexpr std::uint8_t kUnsignedByte = 0x08;
constexpr std::size_t kMostDimensions = 8;

std::uint64_t big_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (const std::byte b : bytes) value = value << 8U | std::to_integer<std::uint64_t>(b);
  return value;
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& path) {
  const File file("idx", path);
  require_readable("idx", file, kMostData);
  std::array<std::byte, 4> magic{};
  file.read_at(0, magic);
  const auto dimensions = std::to_integer<std::size_t>(magic[3]);
  require(big_endian(std::span(magic).first(2)) == 0 &&
              std::to_integer<std::uint8_t>(magic[2]) == kUnsignedByte && dimensions > 0 &&
              dimensions <= kMostDimensions,
          "[idx] {}: is no IDX file of unsigned bytes", path.string());
  IdxArray array;
  std::uint64_t size = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    std::array<std::byte, 4> bytes{};
    file.read_at(4 + 4 * i, bytes);
    array.shape.push_back(big_endian(bytes));
    const bool counts = !__builtin_mul_overflow(size, array.shape.back(), &size);
    require(counts && size <= file.size(),
            "[idx] {}: {} bytes for dimension {} of {}; the file is too short", path.string(),
            file.size(), i + 1, array.shape.back());
  }
  const std::uint64_t header = 4 + 4 * dimensions;
  require(file.size() == header + size, "[idx] {}: {} bytes; its shape needs {}", path.string(),
          file.size(), header + size);
  array.data.resize(size);
  file.read_at(header, std::as_writable_bytes(std::span(array.data)));
  return array;
}

}  // namespace longspan
