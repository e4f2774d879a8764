#include "longspan/io/idx.h"

#include <algorithm>
#include <array>
#include <span>

#include "longspan/base/error.h"
#include "longspan/io/file.h"
#include "longspan/io/gzip_file.h"

namespace longspan {

namespace {

constexpr std::uint8_t kUnsignedByte = 0x08;
constexpr std::size_t kMostDimensions = 8;

std::uint64_t big_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (const std::byte b : bytes) value = value << 8U | std::to_integer<std::uint64_t>(b);
  return value;
}

// From front to back, as what is packed can be read.
class PlainSource {
 public:
  explicit PlainSource(const File& file) : file_(file) {}
  void read(std::span<std::byte> into) {
    file_.read_at(at_, into);
    at_ += into.size();
  }

 private:
  const File& file_;
  std::uint64_t at_ = 0;
};

// The shape; `most` bytes may be there at all.
template <class Source>
std::uint64_t read_shape(const std::filesystem::path& path, std::uint64_t most, Source& from,
                         IdxArray& array) {
  std::array<std::byte, 4> bytes{};
  from.read(bytes);
  const auto dimensions = std::to_integer<std::size_t>(bytes[3]);
  require(big_endian(std::span(bytes).first(2)) == 0 &&
              std::to_integer<std::uint8_t>(bytes[2]) == kUnsignedByte && dimensions > 0 &&
              dimensions <= kMostDimensions,
          "[idx] {}: is no IDX file of unsigned bytes", path.string());
  std::uint64_t size = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    from.read(bytes);
    array.shape.push_back(big_endian(bytes));
    require(array.shape.back() > 0, "[idx] {}: dimension {} is 0; need at least 1", path.string(),
            i + 1);
    const bool counts = !__builtin_mul_overflow(size, array.shape.back(), &size);
    require(counts && size <= most,
            "[idx] {}: {} bytes for dimension {} of {}; the file is too short", path.string(), most,
            i + 1, array.shape.back());
  }
  return size;
}

// How much there is of what is packed shows only when it is unpacked: memory follows it.
IdxArray read_packed(const std::filesystem::path& path) {
  GzipFile file("idx", path);
  IdxArray array;
  const std::uint64_t size = read_shape(path, std::min(file.most(), kMostData), file, array);
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 20U;
  while (array.data.size() < size) {
    const std::size_t before = array.data.size();
    array.data.resize(before + static_cast<std::size_t>(std::min(kPiece, size - before)));
    file.read(std::as_writable_bytes(std::span(array.data).subspan(before)));
  }
  file.require_end();
  return array;
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& path) {
  if (path.extension() == ".gz") return read_packed(path);
  const File file("idx", path);
  require_readable("idx", file, kMostData);
  PlainSource from(file);
  IdxArray array;
  const std::uint64_t size = read_shape(path, file.size(), from, array);
  const std::uint64_t header = 4 + 4 * array.shape.size();
  require(file.size() == header + size, "[idx] {}: {} bytes; its shape needs {}", path.string(),
          file.size(), header + size);
  array.data.resize(size);
  from.read(std::as_writable_bytes(std::span(array.data)));
  return array;
}

}  // namespace longspan
