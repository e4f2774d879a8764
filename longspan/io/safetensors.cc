#include "longspan/io/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>

#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "longspan/io/atomic_file.h"
#include "longspan/io/checksum.h"
#include "longspan/io/json_file.h"

namespace longspan {

using nlohmann::json;

namespace {

static_assert(std::endian::native == std::endian::little, "tensors are stored little-endian");

constexpr std::string_view kWho = "safetensors";
constexpr std::size_t kLengthBytes = 8;
// A tensor takes some hundred bytes: a file of 100,000 tensors is within.
constexpr std::uint64_t kLongestHeader = std::uint64_t{16} << 20U;
constexpr std::string_view kMetadataKey = "__metadata__";
// A header with a checksum begins so, followed by 16 digits; they are summed as zeros.
constexpr std::string_view kChecksumPrefix = R"({"__metadata__":{"checksum":")";
constexpr std::string_view kNoChecksum = "0000000000000000";

struct DtypeTraits {
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array<DtypeTraits, 15> kDtypeTraits{{{"BOOL", 1},
                                                    {"U8", 1},
                                                    {"I8", 1},
                                                    {"F8_E5M2", 1},
                                                    {"F8_E4M3", 1},
                                                    {"I16", 2},
                                                    {"U16", 2},
                                                    {"F16", 2},
                                                    {"BF16", 2},
                                                    {"I32", 4},
                                                    {"U32", 4},
                                                    {"F32", 4},
                                                    {"F64", 8},
                                                    {"I64", 8},
                                                    {"U64", 8}}};

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

// 1 sign bit, 5 bits of exponent (bias 15), 10 of fraction.
float from_f16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (bits >> 10U) & 0x1FU;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0) {  // zero and subnormals: fraction · 2^-24
    const float value = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
  }
  const std::uint32_t wide = exponent == 0x1F ? 0xFFU : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (wide << 23U) | (fraction << 13U));
}

// Product of the sizes; false when it exceeds what std::size_t holds.
bool multiply(const Shape& shape, std::size_t& product) {
  product = 1;
  for (const std::size_t size : shape) {
    if (__builtin_mul_overflow(product, size, &product)) return false;
  }
  return true;
}

std::vector<std::uint64_t> unsigned_array(const std::string& where, const std::string& name,
                                          const char* field, const json& tensor) {
  const auto found = tensor.find(field);
  require(
      found != tensor.end() && found->is_array() &&
          std::ranges::all_of(*found, [](const json& size) { return size.is_number_unsigned(); }),
      "{}: tensor '{}' has no valid {}; need a list of whole numbers", where, printable(name),
      field);
  return found->get<std::vector<std::uint64_t>>();
}

TensorInfo parse_tensor(const std::string& where, const std::string& name, const json& tensor) {
  const std::string shown = printable(name);
  require(tensor.is_object(), "{}: tensor '{}' is described by {}; need an object", where, shown,
          tensor.type_name());
  TensorInfo info;
  info.name = name;
  const auto dtype = tensor.find("dtype");
  require(dtype != tensor.end() && dtype->is_string(), "{}: tensor '{}' has no dtype", where,
          shown);
  const auto& dtype_name = dtype->get_ref<const std::string&>();
  const auto traits = std::ranges::find(kDtypeTraits, dtype_name, &DtypeTraits::name);
  require(traits != kDtypeTraits.end(), "{}: tensor '{}' has the unknown dtype '{}'", where, shown,
          printable(dtype_name));
  info.dtype = static_cast<Dtype>(traits - kDtypeTraits.begin());

  const auto sizes = unsigned_array(where, name, "shape", tensor);
  info.shape.assign(sizes.begin(), sizes.end());
  std::size_t bytes = 0;
  require(multiply(info.shape, info.elements) &&
              !__builtin_mul_overflow(info.elements, traits->bytes, &bytes),
          "{}: tensor '{}' has more elements than can be counted", where, shown);

  const auto offsets = unsigned_array(where, name, "data_offsets", tensor);
  require(offsets.size() == 2 && offsets[0] <= offsets[1],
          "{}: tensor '{}' has data_offsets [{}]; need begin and end", where, shown,
          fmt::join(offsets, ", "));
  info.begin = offsets[0];
  info.end = offsets[1];
  require(info.end - info.begin == bytes,
          "{}: tensor '{}' has {} bytes of data; its shape {} of {} needs {}", where, shown,
          info.end - info.begin, to_string(info.shape), traits->name, bytes);
  return info;
}

Metadata parse_metadata(const std::string& where, const json& value) {
  require(value.is_object(), "{}: {} is {}; need an object", where, kMetadataKey,
          value.type_name());
  Metadata metadata;
  for (const auto& item : value.items()) {
    require(item.value().is_string(), "{}: {} '{}' is {}; need a string", where, kMetadataKey,
            printable(item.key()), item.value().type_name());
    metadata.emplace(item.key(), item.value().get<std::string>());
  }
  return metadata;
}

}  // namespace

std::string_view name_of(Dtype dtype) { return kDtypeTraits[static_cast<std::size_t>(dtype)].name; }
std::size_t bytes_of(Dtype dtype) { return kDtypeTraits[static_cast<std::size_t>(dtype)].bytes; }
std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(kWho, path) {
  read_header();
  const json header = parse_json(where() + ": the header", header_);
  require(header.is_object(), "{}: the header is {}; need an object", where(), header.type_name());
  require(header_.starts_with('{'), "{}: the header does not begin with its brace", where());
  for (const auto& item : header.items()) {
    if (item.key() == kMetadataKey) {
      metadata_ = parse_metadata(where(), item.value());
    } else {
      tensors_.push_back(parse_tensor(where(), item.key(), item.value()));
    }
  }
  std::ranges::sort(tensors_, {},
                    [](const TensorInfo& t) { return std::tie(t.begin, t.end, t.name); });
  check_layout();
  for (std::size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
  if (header_.starts_with(kChecksumPrefix)) checksum_ = metadata_.at(kChecksumKey);
}

std::string SafetensorsFile::where() const {
  return fmt::format("[{}] {}", kWho, file_.path().string());
}

void SafetensorsFile::read_header() {
  require(file_.size() >= kLengthBytes,
          "{}: has {} bytes; need at least {}; the file is truncated or not safetensors", where(),
          file_.size(), kLengthBytes);
  std::uint64_t length = 0;
  file_.read_at(0, std::as_writable_bytes(std::span(&length, 1)));
  const std::uint64_t left = file_.size() - kLengthBytes;
  require(length <= left,
          "{}: the first 8 bytes announce a header of {} bytes but only {} follow; the file is "
          "truncated or not safetensors",
          where(), length, left);
  require(length <= kLongestHeader, "{}: the header has {} bytes; need at most {}", where(), length,
          kLongestHeader);
  header_.resize(length);
  file_.read_at(kLengthBytes, std::as_writable_bytes(std::span(header_)));
  data_start_ = kLengthBytes + length;
  data_bytes_ = left - length;
}

// The data are covered once: no overlaps, no gaps, nothing behind the end. Tensors are sorted.
void SafetensorsFile::check_layout() const {
  std::uint64_t covered = 0;
  const TensorInfo* previous = nullptr;
  for (const TensorInfo& tensor : tensors_) {
    const std::string shown = printable(tensor.name);
    require(tensor.begin >= covered, "{}: tensors '{}' and '{}' overlap; the header is corrupt",
            where(), printable(previous == nullptr ? "" : previous->name), shown);
    require(tensor.begin == covered,
            "{}: {} bytes before tensor '{}' belong to no tensor; the header is corrupt", where(),
            tensor.begin - covered, shown);
    require(tensor.end <= data_bytes_,
            "{}: the header says {} bytes of tensor '{}' but the file ends after {}; the file is "
            "truncated",
            where(), tensor.end - tensor.begin, shown,
            data_bytes_ - std::min(data_bytes_, tensor.begin));
    covered = tensor.end;
    previous = &tensor;
  }
  require(covered == data_bytes_,
          "{}: {} bytes follow the last tensor; the file is corrupt or has something appended",
          where(), data_bytes_ - covered);
}

const TensorInfo& SafetensorsFile::at(std::string_view name) const {
  const auto found = index_.find(name);
  if (found != index_.end()) return tensors_[found->second];
  std::vector<std::string_view> known;
  for (const TensorInfo& tensor : tensors_) known.push_back(tensor.name);
  throw Error(known.empty() ? fmt::format("{}: has no tensors; need '{}'", where(), name)
                            : fmt::format("{}: has no tensor '{}'; the nearest is '{}'", where(),
                                          name, printable(nearest(name, known))));
}

// Reads pieces of the tensor as `From` and hands each value to `to`.
template <class From, class To, class Convert>
static void read_as(const File& file, std::uint64_t offset, std::span<To> into, Convert convert) {
  std::array<From, 4096> piece{};
  for (std::size_t done = 0; done < into.size();) {
    const std::size_t count = std::min(piece.size(), into.size() - done);
    file.read_at(offset + done * sizeof(From),
                 std::as_writable_bytes(std::span(piece).first(count)));
    for (std::size_t i = 0; i < count; ++i) into[done + i] = convert(piece[i]);
    done += count;
  }
}

template <class To>
void SafetensorsFile::convert(const TensorInfo& tensor, std::span<To> into) const {
  const std::uint64_t offset = data_start_ + tensor.begin;
  const auto cast = [](auto value) { return static_cast<To>(value); };
  if constexpr (std::floating_point<To>) {
    switch (tensor.dtype) {
      case Dtype::kF32:
        if constexpr (std::same_as<To, float>)
          return file_.read_at(offset, std::as_writable_bytes(into));
        return read_as<float>(file_, offset, into, cast);
      case Dtype::kF64:
        return read_as<double>(file_, offset, into, cast);
      case Dtype::kF16:
        return read_as<std::uint16_t>(file_, offset, into, from_f16);
      case Dtype::kBF16:
        return read_as<std::uint16_t>(file_, offset, into, from_bf16);
      default:
        break;
    }
  } else {
    switch (tensor.dtype) {
      case Dtype::kBool:
      case Dtype::kU8:
        return read_as<std::uint8_t>(file_, offset, into, cast);
      case Dtype::kI8:
        return read_as<std::int8_t>(file_, offset, into, cast);
      case Dtype::kI16:
        return read_as<std::int16_t>(file_, offset, into, cast);
      case Dtype::kU16:
        return read_as<std::uint16_t>(file_, offset, into, cast);
      case Dtype::kI32:
        return read_as<std::int32_t>(file_, offset, into, cast);
      case Dtype::kU32:
        return read_as<std::uint32_t>(file_, offset, into, cast);
      case Dtype::kI64:
        return file_.read_at(offset, std::as_writable_bytes(into));
      case Dtype::kU64:
        return read_as<std::uint64_t>(file_, offset, into, [&](std::uint64_t value) {
          require(value <= std::uint64_t{std::numeric_limits<std::int64_t>::max()},
                  "{}: tensor '{}' holds {}; need at most 2^63 - 1", where(),
                  printable(tensor.name), value);
          return static_cast<std::int64_t>(value);
        });
      default:
        break;
    }
  }
  throw Error(fmt::format("{}: tensor '{}' is {}; need {}", where(), printable(tensor.name),
                          name_of(tensor.dtype),
                          std::floating_point<To> ? "F16, BF16, F32 or F64" : "an integer type"));
}

std::vector<float> SafetensorsFile::floats(std::string_view name) const {
  const TensorInfo& tensor = at(name);
  std::vector<float> values(tensor.elements);
  convert(tensor, std::span(values));
  return values;
}

std::vector<double> SafetensorsFile::doubles(std::string_view name) const {
  const TensorInfo& tensor = at(name);
  std::vector<double> values(tensor.elements);
  convert(tensor, std::span(values));
  return values;
}

std::vector<std::int64_t> SafetensorsFile::integers(std::string_view name) const {
  const TensorInfo& tensor = at(name);
  std::vector<std::int64_t> values(tensor.elements);
  convert(tensor, std::span(values));
  return values;
}

void SafetensorsFile::read_into(std::string_view name, const Shape& shape,
                                std::span<float> into) const {
  const TensorInfo& tensor = at(name);
  require(tensor.shape == shape, "{}: tensor '{}' has the shape {}; need {}", where(), name,
          to_string(tensor.shape), to_string(shape));
  require(tensor.elements == into.size(), "{}: tensor '{}' has {} elements; got room for {}",
          where(), name, tensor.elements, into.size());
  convert(tensor, into);
}

void SafetensorsFile::verify_checksum() const {
  require(has_checksum(), "{}: has no checksum; need a file that longspan wrote", where());
  Checksum checksum;
  const auto header = std::as_bytes(std::span(header_));
  checksum.add(header.first(kChecksumPrefix.size()));
  checksum.add(std::as_bytes(std::span(kNoChecksum)));
  checksum.add(header.subspan(std::min(kChecksumPrefix.size() + checksum_.size(), header.size())));
  std::vector<std::byte> piece(std::min<std::uint64_t>(data_bytes_, std::uint64_t{1} << 20U));
  for (std::uint64_t done = 0; done < data_bytes_;) {
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), data_bytes_ - done));
    const auto bytes = std::span(piece).first(count);
    file_.read_at(data_start_ + done, bytes);
    checksum.add(bytes);
    done += count;
  }
  require(checksum.hex() == checksum_,
          "{}: the checksum of the file is {} but its header says {}; the file is corrupt", where(),
          checksum.hex(), printable(checksum_));
}

namespace {

// The header, padded with spaces so that the data begin at a multiple of 8.
std::string make_header(const std::filesystem::path& path, std::span<const TensorSource> tensors,
                        const Metadata& metadata) {
  const std::string where = fmt::format("[{}] {}", kWho, path.string());
  // Objects from the start: what becomes one later is neither, should memory be refused meanwhile.
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  auto& about = header[std::string(kMetadataKey)] = nlohmann::ordered_json::object();
  about[kChecksumKey] = kNoChecksum;
  for (const auto& [key, value] : metadata) {
    require(key != kChecksumKey, "{}: the metadata key '{}' is taken", where, key);
    about[key] = value;
  }
  std::uint64_t end = 0;
  std::map<std::string_view, bool> seen{{kMetadataKey, true}};
  for (const TensorSource& tensor : tensors) {
    const std::string shown = printable(tensor.name);
    require(seen.emplace(tensor.name, true).second, "{}: the tensor name '{}' is taken", where,
            shown);
    std::size_t elements = 0;
    require(multiply(tensor.shape, elements) && elements == tensor.data.size(),
            "{}: tensor '{}' of shape {} got {} elements", where, shown, to_string(tensor.shape),
            tensor.data.size());
    const std::uint64_t begin = end;
    end += tensor.data.size_bytes();
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  try {
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    require(text.size() <= kLongestHeader, "{}: the header takes {} bytes; need at most {}", where,
            text.size(), kLongestHeader);
    return text;
  } catch (const json::exception&) {
    throw Error(fmt::format("{}: a name or metadata value is not UTF-8", where));
  }
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::span<const TensorSource> tensors,
                       const Metadata& metadata) {
  std::string header = make_header(path, tensors, metadata);
  Checksum checksum;
  checksum.add(std::as_bytes(std::span(header)));
  for (const TensorSource& tensor : tensors) checksum.add(std::as_bytes(tensor.data));
  header.replace(kChecksumPrefix.size(), kNoChecksum.size(), checksum.hex());

  AtomicFile file(kWho, path);
  const std::uint64_t length = header.size();
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  for (const TensorSource& tensor : tensors) file.write(std::as_bytes(tensor.data));
  file.commit();
}

}  // namespace longspan
