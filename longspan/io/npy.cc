#include "longspan/io/npy.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <optional>
#include <string>

#include "longspan/base/error.h"
#include "longspan/base/integers.h"
#include "longspan/io/atomic_file.h"
#include "longspan/io/file.h"

namespace longspan {

namespace {

static_assert(std::endian::native == std::endian::little, "arrays are stored little-endian");

constexpr std::string_view kNpy = "npy";
constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kAlignment = 64;  // where the elements begin
constexpr std::uint64_t kLongestNpyHeader = 1'000'000;

struct NpyType {
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array<NpyType, 5> kTypes{
    {{"<f4", 4}, {"<f8", 8}, {"<i8", 8}, {"<i4", 4}, {"|u1", 1}}};

struct NpyHeader {
  NpyType type;
  std::vector<std::size_t> shape;
  std::size_t elements = 0;
  std::uint64_t data_start = 0;
};

// The header is a Python literal; only the form that NumPy documents is accepted.
class HeaderParser {
 public:
  HeaderParser(std::string where, std::string_view text) : where_(std::move(where)), rest_(text) {}

  NpyHeader parse() {
    std::optional<NpyType> type;
    std::optional<bool> fortran;
    std::optional<std::vector<std::size_t>> shape;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && !type) {
        type = parse_type();
      } else if (key == "fortran_order" && !fortran) {
        fortran = parse_bool();
      } else if (key == "shape" && !shape) {
        shape = parse_shape();
      } else {
        fail();
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!rest_.empty() || !type || !fortran || !shape) fail();
    require(!*fortran || shape->size() < 2, "{}: is in Fortran order; need C order", where_);
    return {.type = *type, .shape = *shape};
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(
        fmt::format("{}: the header is not valid; need a dictionary with descr, "
                    "fortran_order and shape",
                    where_));
  }
  void skip_space() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n'))
      rest_.remove_prefix(1);
  }
  bool accept(char wanted) {
    skip_space();
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) fail();
  }
  std::string_view quoted() {
    skip_space();
    const char quote = rest_.empty() ? '\0' : rest_.front();
    if (quote != '\'' && quote != '"') fail();
    const std::size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) fail();
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  NpyType parse_type() {
    const std::string_view name = quoted();
    const auto* const found = std::ranges::find(kTypes, name, &NpyType::name);
    require(found != kTypes.end(),
            "{}: holds elements of type '{}'; need <f4, <f8, <i8, <i4 or |u1", where_,
            printable(name));
    return *found;
  }
  bool parse_bool() {
    skip_space();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return value;
    }
    fail();
  }
  std::vector<std::size_t> parse_shape() {
    std::vector<std::size_t> shape;
    expect('(');
    while (!accept(')')) {
      skip_space();
      std::size_t size = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (error != std::errc{}) fail();
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      shape.push_back(size);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }

  std::string where_;
  std::string_view rest_;
};

std::string where_of(const std::filesystem::path& path) {
  return fmt::format("[{}] {}", kNpy, path.string());
}

bool multiply(std::span<const std::size_t> shape, std::size_t& product) {
  product = 1;
  return std::ranges::none_of(
      shape, [&](std::size_t size) { return __builtin_mul_overflow(product, size, &product); });
}

NpyHeader read_header(const File& file) {
  const std::string where = where_of(file.path());
  constexpr std::size_t kShortest = 10;  // magic, version, two bytes of length
  std::array<char, 12> start{};
  const auto got = static_cast<std::size_t>(std::min<std::uint64_t>(start.size(), file.size()));
  file.read_at(0, std::as_writable_bytes(std::span(start).first(got)));
  require(got >= kShortest && std::string_view(start.data(), kMagic.size()) == kMagic,
          "{}: does not begin as an .npy file does", where);
  const int version = static_cast<unsigned char>(start[6]);
  require(version >= 1 && version <= 3, "{}: has version {}; need 1, 2 or 3", where, version);
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  const std::uint64_t header_start = 8 + length_bytes;
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) {
    length |= std::uint64_t{static_cast<unsigned char>(start[8 + i])} << (8 * i);
  }
  require(header_start <= file.size() && length <= file.size() - header_start,
          "{}: announces a header of {} bytes but has {} altogether; the file is truncated", where,
          length, file.size());
  require(length <= kLongestNpyHeader, "{}: the header has {} bytes; need at most {}", where,
          length, kLongestNpyHeader);
  std::string text(length, '\0');
  file.read_at(header_start, std::as_writable_bytes(std::span(text)));

  NpyHeader header = HeaderParser(where, text).parse();
  header.data_start = header_start + length;
  std::size_t bytes = 0;
  require(multiply(header.shape, header.elements) &&
              !__builtin_mul_overflow(header.elements, header.type.bytes, &bytes),
          "{}: has more elements than can be counted", where);
  const std::uint64_t present = file.size() - header.data_start;
  require(present >= bytes,
          "{}: the shape ({}) of {} needs {} bytes but {} follow the header; the file is truncated",
          where, fmt::join(header.shape, ", "), header.type.name, bytes, present);
  require(present == bytes, "{}: {} bytes follow the last element", where, present - bytes);
  return header;
}

}  // namespace

std::string_view npy_type_of(const std::filesystem::path& path) {
  return read_header(File(kNpy, path)).type.name;
}

template <NpyElement T>
NpyArray<T> read_npy(const std::filesystem::path& path) {
  const File file(kNpy, path);
  NpyHeader header = read_header(file);
  require(header.type.name == npy_type<T>(), "{}: holds {}; need {}", where_of(path),
          header.type.name, npy_type<T>());
  NpyArray<T> array{.shape = std::move(header.shape), .data = std::vector<T>(header.elements)};
  file.read_at(header.data_start, std::as_writable_bytes(std::span(array.data)));
  return array;
}

template <NpyElement T>
void write_npy(const std::filesystem::path& path, std::span<const std::size_t> shape,
               std::span<const T> data) {
  std::size_t elements = 0;
  require(multiply(shape, elements) && elements == data.size(),
          "{}: the shape ({}) got {} elements", where_of(path), fmt::join(shape, ", "),
          data.size());
  // A tuple of one keeps its comma: (3,).
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", npy_type<T>(),
                  fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  const std::size_t before = kMagic.size() + 4;
  const std::size_t padded = round_up(before + text.size() + 1, kAlignment) - before;
  require(padded <= 0xFFFF, "{}: the shape has {} sizes; need fewer", where_of(path), shape.size());
  text.resize(padded - 1, ' ');
  text += '\n';

  AtomicFile file(kNpy, path);
  file.write(kMagic);
  const std::array<char, 4> version_and_length{1, 0, static_cast<char>(padded & 0xFFU),
                                               static_cast<char>(padded >> 8U)};
  file.write(std::as_bytes(std::span(version_and_length)));
  file.write(text);
  file.write(std::as_bytes(data));
  file.commit();
}

template NpyArray<float> read_npy(const std::filesystem::path&);
template NpyArray<double> read_npy(const std::filesystem::path&);
template NpyArray<std::int64_t> read_npy(const std::filesystem::path&);
template NpyArray<std::int32_t> read_npy(const std::filesystem::path&);
template NpyArray<std::uint8_t> read_npy(const std::filesystem::path&);
using NpyShape = std::span<const std::size_t>;
template void write_npy(const std::filesystem::path&, NpyShape, std::span<const float>);
template void write_npy(const std::filesystem::path&, NpyShape, std::span<const double>);
template void write_npy(const std::filesystem::path&, NpyShape, std::span<const std::int64_t>);
template void write_npy(const std::filesystem::path&, NpyShape, std::span<const std::int32_t>);
template void write_npy(const std::filesystem::path&, NpyShape, std::span<const std::uint8_t>);

}  // namespace longspan
