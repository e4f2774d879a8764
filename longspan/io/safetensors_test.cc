#include "longspan/io/safetensors.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace safetensors_test {

using testing::message_of;
using testing::read_bytes;
using testing::TemporaryDirectory;
using testing::write_bytes;

std::string with_length(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + data;
}

template <class T>
std::string raw(std::initializer_list<T> values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

class SafetensorsTest : public ::testing::Test {
 protected:
  // The complaint about a file of these bytes, without its name.
  std::string complaint(const std::string& bytes) {
    write_bytes(path_, bytes);
    const std::string message = message_of([&] { SafetensorsFile{path_}; });
    const std::string prefix = "[safetensors] " + path_.string() + ": ";
    EXPECT_TRUE(message.empty() || message.starts_with(prefix)) << message;
    return message.empty() ? "" : message.substr(prefix.size());
  }

  TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_ / "model.safetensors";
};

TEST_F(SafetensorsTest, RoundTrip) {
  std::vector<float> w(2 * 3 * 5);
  std::iota(w.begin(), w.end(), 0.25F);
  const std::vector<float> odd{-0.0F, std::numeric_limits<float>::infinity(), 1e-42F};
  const std::vector<float> scalar{7};
  const std::vector<TensorSource> tensors{
      {"z", {2, 3, 5}, w}, {"a \"b\" é", {3}, odd}, {"scalar", {}, scalar}, {"none", {4, 0}, {}}};
  write_safetensors(path_, tensors, {{"step", "12"}, {"rule", "bp"}});

  const SafetensorsFile file(path_);
  EXPECT_EQ(file.tensors().size(), 4U);
  EXPECT_EQ(file.metadata().at("step"), "12");
  EXPECT_EQ(file.metadata().at("rule"), "bp");
  for (const TensorSource& tensor : tensors) {
    EXPECT_EQ(file.at(tensor.name).shape, tensor.shape);
    const std::vector<float> read = file.floats(tensor.name);
    ASSERT_EQ(read.size(), tensor.data.size());
    for (std::size_t i = 0; i < read.size(); ++i) {  // bits, since -0 == 0
      EXPECT_EQ(std::bit_cast<std::uint32_t>(read[i]),
                std::bit_cast<std::uint32_t>(tensor.data[i]));
    }
  }
  EXPECT_TRUE(file.has_checksum());
  file.verify_checksum();

  std::vector<float> into(30);
  file.read_into("z", {2, 3, 5}, into);
  EXPECT_EQ(into, w);
}

TEST_F(SafetensorsTest, FilesAreAlignedAndReproducible) {
  const std::vector<float> values{1, 2, 3};
  for (const std::string name : {"w", "ww", "www", "wwww", "wwwww", "wwwwww", "wwwwwww"}) {
    const std::vector<TensorSource> tensors{{name, {3}, values}};
    write_safetensors(path_, tensors);
    const std::string once = read_bytes(path_);
    write_safetensors(path_, tensors);
    EXPECT_EQ(read_bytes(path_), once);
    EXPECT_EQ((once.size() - 12) % 8, 0U);
    EXPECT_EQ(SafetensorsFile(path_).tensors().at(0).name, name);
  }
}

TEST_F(SafetensorsTest, ConvertsTypes) {
  const std::string header = R"({"f64":{"dtype":"F64","shape":[2],"data_offsets":[0,16]},)"
                             R"("f16":{"dtype":"F16","shape":[7],"data_offsets":[16,30]},)"
                             R"("bf16":{"dtype":"BF16","shape":[2],"data_offsets":[30,34]},)"
                             R"("i64":{"dtype":"I64","shape":[2],"data_offsets":[34,50]},)"
                             R"("i32":{"dtype":"I32","shape":[2],"data_offsets":[50,58]},)"
                             R"("u8":{"dtype":"U8","shape":[2],"data_offsets":[58,60]},)"
                             R"("u64":{"dtype":"U64","shape":[1],"data_offsets":[60,68]},)"
                             R"("f8":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[68,69]}})";
  write_bytes(
      path_, with_length(header, raw<double>({0.1, -2}) +
                                     raw<std::uint16_t>(
                                         {0x3C00, 0xC000, 0x3555, 0x0001, 0x83FF, 0x7C00, 0x7E00}) +
                                     raw<std::uint16_t>({0x3F80, 0xC049}) +
                                     raw<std::int64_t>({-5, std::int64_t{1} << 40}) +
                                     raw<std::int32_t>({-7, 7}) + raw<std::uint8_t>({0, 255}) +
                                     raw<std::uint64_t>({~0ULL}) + raw<std::uint8_t>({1})));
  const SafetensorsFile file(path_);
  EXPECT_EQ(file.doubles("f64"), (std::vector<double>{0.1, -2}));
  EXPECT_EQ(file.floats("f64"), (std::vector<float>{0.1F, -2}));
  const auto half = file.floats("f16");
  EXPECT_EQ(half[0], 1.0F);
  EXPECT_EQ(half[1], -2.0F);
  EXPECT_EQ(half[2], 0.333251953125F);
  EXPECT_EQ(half[3], 0x1p-24F);
  EXPECT_EQ(half[4], -1023 * 0x1p-24F);
  EXPECT_TRUE(std::isinf(half[5]));
  EXPECT_TRUE(std::isnan(half[6]));
  EXPECT_EQ(file.doubles("f16")[2], 0.333251953125);
  EXPECT_EQ(file.floats("bf16"), (std::vector<float>{1.0F, -3.140625F}));
  EXPECT_EQ(file.integers("i64"), (std::vector<std::int64_t>{-5, std::int64_t{1} << 40}));
  EXPECT_EQ(file.integers("i32"), (std::vector<std::int64_t>{-7, 7}));
  EXPECT_EQ(file.integers("u8"), (std::vector<std::int64_t>{0, 255}));
  const std::string where = "[safetensors] " + path_.string() + ": ";
  EXPECT_EQ(message_of([&] { file.integers("u64"); }),
            where + "tensor 'u64' holds 18446744073709551615; need at most 2^63 - 1");
  EXPECT_EQ(message_of([&] { file.floats("f8"); }),
            where + "tensor 'f8' is F8_E4M3; need F16, BF16, F32 or F64");
  EXPECT_EQ(message_of([&] { file.integers("f64"); }),
            where + "tensor 'f64' is F64; need an integer type");
  EXPECT_EQ(message_of([&] { file.floats("f644"); }),
            where + "has no tensor 'f644'; the nearest is 'f64'");
  std::vector<float> into(2);
  EXPECT_EQ(message_of([&] {
              file.read_into("f64", {1, 2}, into);
            }),
            where + "tensor 'f64' has the shape [2]; need [1, 2]");
  EXPECT_FALSE(file.has_checksum());
  EXPECT_EQ(message_of([&] { file.verify_checksum(); }),
            where + "has no checksum; need a file that longspan wrote");
}

TEST_F(SafetensorsTest, LongTensorsAreReadInPieces) {
  std::vector<double> values(10007);
  std::iota(values.begin(), values.end(), 0.0);
  std::string data(values.size() * 8, '\0');
  std::memcpy(data.data(), values.data(), data.size());
  write_bytes(
      path_,
      with_length(R"({"x":{"dtype":"F64","shape":[10007],"data_offsets":[0,80056]}})", data));
  const std::vector<float> read = SafetensorsFile(path_).floats("x");
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(read[i], static_cast<float>(i));
}

TEST_F(SafetensorsTest, RefusesBrokenHeaders) {
  EXPECT_EQ(complaint("12345"),
            "has 5 bytes; need at least 8; the file is truncated or not safetensors");
  EXPECT_EQ(complaint(raw<std::uint64_t>({100}) + "{}"),
            "the first 8 bytes announce a header of 100 bytes but only 2 follow; the file is "
            "truncated or not safetensors");
  EXPECT_EQ(complaint(raw<std::uint64_t>({~0ULL}) + "{}"),
            "the first 8 bytes announce a header of 18446744073709551615 bytes but only 2 follow; "
            "the file is truncated or not safetensors");
  EXPECT_EQ(complaint(with_length("{\"a\":", "")),
            "the header: line 1, column 6: syntax error while parsing value - unexpected end of "
            "input; need valid JSON");
  EXPECT_EQ(complaint(with_length("[]", "")), "the header is array; need an object");
  EXPECT_EQ(complaint(with_length(R"({"w":1})", "")),
            "tensor 'w' is described by number; need an object");
  EXPECT_EQ(complaint(with_length(R"({"w":{}})", "")), "tensor 'w' has no dtype");
  EXPECT_EQ(complaint(with_length(R"({"w":{"dtype":"F33"}})", "")),
            "tensor 'w' has the unknown dtype 'F33'");
  for (const std::string shape :
       {"3", "[-1]", "[1.5]", "[\"1\"]", "null", "[18446744073709551616]"}) {
    EXPECT_EQ(complaint(with_length(R"({"w":{"dtype":"F32","shape":)" + shape + "}}", "")),
              "tensor 'w' has no valid shape; need a list of whole numbers");
  }
  EXPECT_EQ(complaint(with_length(R"({"__metadata__":{"a":1}})", "")),
            "__metadata__ 'a' is number; need a string");
  EXPECT_EQ(complaint(with_length("{}", "")), "");
}

// A header with tensors "w" and, if not empty, "v", both F32.
std::string two(const std::string& w, const std::string& v = "") {
  std::string header = R"({"w":{"dtype":"F32",)" + w + "}";
  if (!v.empty()) header += R"(,"v":{"dtype":"F32",)" + v + "}";
  return header + "}";
}

TEST_F(SafetensorsTest, RefusesBrokenLayouts) {
  const std::string data(24, 'x');
  EXPECT_EQ(
      complaint(with_length(two(R"("shape":[203],"data_offsets":[0,812])"), std::string(400, 'x'))),
      "the header says 812 bytes of tensor 'w' but the file ends after 400; the file is "
      "truncated");
  EXPECT_EQ(complaint(with_length(two(R"("shape":[3],"data_offsets":[0,16])"), data)),
            "tensor 'w' has 16 bytes of data; its shape [3] of F32 needs 12");
  EXPECT_EQ(complaint(with_length(two(R"("shape":[3],"data_offsets":[12,0])"), data)),
            "tensor 'w' has data_offsets [12, 0]; need begin and end");
  EXPECT_EQ(complaint(with_length(two(R"("shape":[3],"data_offsets":[0,12,24])"), data)),
            "tensor 'w' has data_offsets [0, 12, 24]; need begin and end");
  EXPECT_EQ(
      complaint(with_length(two(R"("shape":[4294967296,4294967296],"data_offsets":[0,0])"), data)),
      "tensor 'w' has more elements than can be counted");
  EXPECT_EQ(
      complaint(with_length(two(R"("shape":[4611686018427387904],"data_offsets":[0,0])"), data)),
      "tensor 'w' has more elements than can be counted");
  EXPECT_EQ(complaint(with_length(
                two(R"("shape":[3],"data_offsets":[0,12])", R"("shape":[3],"data_offsets":[8,20])"),
                data)),
            "tensors 'w' and 'v' overlap; the header is corrupt");
  EXPECT_EQ(complaint(with_length(
                two(R"("shape":[2],"data_offsets":[0,8])", R"("shape":[3],"data_offsets":[12,24])"),
                data)),
            "4 bytes before tensor 'v' belong to no tensor; the header is corrupt");
  EXPECT_EQ(complaint(with_length(two(R"("shape":[3],"data_offsets":[0,12])"), data)),
            "12 bytes follow the last tensor; the file is corrupt or has something appended");
  EXPECT_EQ(
      complaint(with_length(
          two(R"("shape":[1],"data_offsets":[18446744073709551608,18446744073709551612])"), data)),
      "18446744073709551608 bytes before tensor 'w' belong to no tensor; the header is corrupt");
  EXPECT_EQ(complaint(with_length(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},)"
                                  R"("w":{"dtype":"F32","shape":[3],"data_offsets":[12,24]}})",
                                  data)),
            "the header: the key 'w' appears twice");
}

TEST_F(SafetensorsTest, NotAFile) {
  const std::string shown = directory_.path().string();
  EXPECT_EQ(message_of([&] { SafetensorsFile{directory_.path()}; }),
            "[safetensors] " + shown + " is a directory; need a regular file");
  EXPECT_EQ(message_of([&] { SafetensorsFile{directory_ / "no"}; }),
            "[safetensors] " + shown + "/no does not exist");
  EXPECT_EQ(message_of([] { SafetensorsFile{"/dev/null"}; }),
            "[safetensors] /dev/null is a device or a pipe; need a regular file");
}

TEST_F(SafetensorsTest, AChangedBitIsFound) {
  const std::vector<float> values{1, 2, 3};
  write_safetensors(path_, std::vector<TensorSource>{{"w", {3}, values}});
  std::string bytes = read_bytes(path_);
  bytes[bytes.size() - 2] = static_cast<char>(bytes[bytes.size() - 2] ^ 1);
  write_bytes(path_, bytes);
  const SafetensorsFile file(path_);
  const std::string message = message_of([&] { file.verify_checksum(); });
  EXPECT_TRUE(message.ends_with("; the file is corrupt")) << message;
}

TEST_F(SafetensorsTest, WriterRefusesWhatCannotBeRead) {
  const std::vector<float> values{1, 2, 3};
  const std::string where = "[safetensors] " + path_.string() + ": ";
  const auto write = [&](std::vector<TensorSource> tensors, const Metadata& metadata = {}) {
    return message_of([&] { write_safetensors(path_, tensors, metadata); });
  };
  EXPECT_EQ(write({{"w", {2}, values}}), where + "tensor 'w' of shape [2] got 3 elements");
  EXPECT_EQ(write({{"w", {3}, values}, {"w", {3}, values}}),
            where + "the tensor name 'w' is taken");
  EXPECT_EQ(write({{"__metadata__", {3}, values}}),
            where + "the tensor name '__metadata__' is taken");
  EXPECT_EQ(write({}, {{"checksum", "1"}}), where + "the metadata key 'checksum' is taken");
  EXPECT_EQ(write({{"\xFF", {3}, values}}), where + "a name or metadata value is not UTF-8");
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace safetensors_test
}  // namespace longspan
