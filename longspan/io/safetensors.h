// safetensors: named tensors in one file.
//
//   8 bytes   length of the header, little-endian
//   header    JSON: {"__metadata__": {string: string},
//                    name: {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
//   data      little-endian, row-major, without gaps
//
// Files come from anywhere, so the reader believes nothing: every length is checked against the
// file before it is used. What we write carries a checksum in its metadata that covers the header
// and the data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/io/file.h"

namespace longspan {

// The order of kDtypeTraits in the source.
enum class Dtype : std::uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kF64,
  kI64,
  kU64
};
std::string_view name_of(Dtype dtype);  // "F32"
std::size_t bytes_of(Dtype dtype);      // 4

using Shape = std::vector<std::size_t>;
std::string to_string(const Shape& shape);  // "[2, 3]"

using Metadata = std::map<std::string, std::string>;
inline constexpr const char* kChecksumKey = "checksum";  // of the metadata

struct TensorInfo {
  std::string name;
  Dtype dtype = Dtype::kF32;
  Shape shape;
  std::size_t elements = 0;
  std::uint64_t begin = 0;  // bytes from the start of the data
  std::uint64_t end = 0;
};

class SafetensorsFile {
 public:
  // Reads and checks the header; the data are read on demand.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // in the order of the data
  const Metadata& metadata() const { return metadata_; }
  bool contains(std::string_view name) const { return index_.contains(name); }
  const TensorInfo& at(std::string_view name) const;

  // F16, BF16, F32 and F64 are converted; doubles to floats are rounded.
  std::vector<float> floats(std::string_view name) const;
  std::vector<double> doubles(std::string_view name) const;
  // Any integer type or BOOL; a U64 above 2^63 - 1 is an error.
  std::vector<std::int64_t> integers(std::string_view name) const;
  // As floats(), into memory of the caller; `shape` must be that of the file.
  void read_into(std::string_view name, const Shape& shape, std::span<float> into) const;

  // Did write_safetensors write this file?
  bool has_checksum() const { return !checksum_.empty(); }
  // Reads everything; throws Error when the checksum is of other bytes, or there is none.
  void verify_checksum() const;

 private:
  std::string where() const;
  void read_header();
  void check_layout() const;
  template <class To>
  void convert(const TensorInfo& tensor, std::span<To> into) const;

  File file_;
  std::string header_;
  std::uint64_t data_start_ = 0;
  std::uint64_t data_bytes_ = 0;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, std::size_t, std::less<>> index_;  // name → position in tensors_
  Metadata metadata_;
  std::string checksum_;
};

struct TensorSource {
  std::string name;
  Shape shape;
  std::span<const float> data;
};

// Writes F32 tensors in the given order, atomically and without copying them; equal arguments give
// equal files. The metadata key "checksum" is taken.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorSource> tensors,
                       const Metadata& metadata = {});

}  // namespace longspan
