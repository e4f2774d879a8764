#include "longspan/io/npy.h"

#include <gtest/gtest.h>

#include <numeric>

#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace npy_test {

using testing::message_of;
using testing::read_bytes;
using testing::TemporaryDirectory;
using testing::write_bytes;

template <class T>
class NpyTypes : public ::testing::Test {};
using Elements = ::testing::Types<float, double, std::int64_t, std::int32_t, std::uint8_t>;
TYPED_TEST_SUITE(NpyTypes, Elements);

TYPED_TEST(NpyTypes, RoundTrip) {
  const TemporaryDirectory directory;
  const auto path = directory / "a.npy";
  const std::vector<std::vector<std::size_t>> shapes{{}, {1}, {7}, {3, 5}, {2, 3, 4, 5}, {0, 3}};
  for (const auto& shape : shapes) {
    std::vector<TypeParam> data(
        std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>()));
    std::iota(data.begin(), data.end(), TypeParam{1});
    write_npy<TypeParam>(path, shape, data);
    EXPECT_EQ(npy_type_of(path), npy_type<TypeParam>());
    const auto array = read_npy<TypeParam>(path);
    EXPECT_EQ(array.shape, shape);
    EXPECT_EQ(array.data, data);
    EXPECT_EQ((read_bytes(path).size() - data.size() * sizeof(TypeParam)) % 64, 0U);
  }
}

class NpyTest : public ::testing::Test {
 protected:
  std::string complaint(const std::string& bytes) {
    write_bytes(path_, bytes);
    const std::string message = message_of([&] { read_npy<float>(path_); });
    const std::string prefix = "[npy] " + path_.string() + ": ";
    EXPECT_TRUE(message.empty() || message.starts_with(prefix)) << message;
    return message.empty() ? "" : message.substr(prefix.size());
  }
  static std::string version1(const std::string& header, const std::string& data) {
    return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header +
           data;
  }
  TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_ / "a.npy";
};

// What numpy.save writes for numpy.array([1.5, -2], dtype=float32).
TEST_F(NpyTest, WritesWhatNumpyWrites) {
  const std::vector<float> data{1.5F, -2.0F};
  write_npy<float>(path_, std::vector<std::size_t>{2}, data);
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  header.resize(117, ' ');
  EXPECT_EQ(read_bytes(path_), version1(header + "\n", std::string("\0\0\xC0\x3F\0\0\0\xC0", 8)));
}

TEST_F(NpyTest, ReadsVersion2AndOtherSpellings) {
  const std::string header = "{\"shape\": ( 2 , 1 ), 'fortran_order':False,'descr':'<f4'}\n";
  write_bytes(path_, std::string("\x93NUMPY\x02\x00", 8) + static_cast<char>(header.size()) +
                         std::string(3, '\0') + header + std::string(8, '\0'));
  EXPECT_EQ(read_npy<float>(path_).shape, (std::vector<std::size_t>{2, 1}));
}

TEST_F(NpyTest, RefusesBrokenFiles) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
  const std::string data(8, 'x');
  const std::string invalid =
      "the header is not valid; need a dictionary with descr, fortran_order and shape";
  EXPECT_EQ(complaint(version1(good, data)), "");
  EXPECT_EQ(complaint(""), "does not begin as an .npy file does");
  EXPECT_EQ(complaint("0123456789abcdef"), "does not begin as an .npy file does");
  EXPECT_EQ(complaint(std::string("\x93NUMPY\x09\x00\x00\x00", 10)),
            "has version 9; need 1, 2 or 3");
  EXPECT_EQ(complaint(std::string("\x93NUMPY\x01\x00\xFF\x00xx", 12)),
            "announces a header of 255 bytes but has 12 altogether; the file is truncated");
  EXPECT_EQ(complaint(std::string("\x93NUMPY\x02\x00\x00\x00", 10)),
            "announces a header of 0 bytes but has 10 altogether; the file is truncated");
  EXPECT_EQ(complaint(version1(good, "1234567")),
            "the shape (2) of <f4 needs 8 bytes but 7 follow the header; the file is truncated");
  EXPECT_EQ(complaint(version1(good, data + "yy")), "2 bytes follow the last element");
  EXPECT_EQ(complaint(version1("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", data)),
            "holds <f8; need <f4");
  EXPECT_EQ(complaint(version1("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", data)),
            "holds elements of type '>f4'; need <f4, <f8, <i8, <i4 or |u1");
  EXPECT_EQ(complaint(version1("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2), }", data)),
            "is in Fortran order; need C order");
  EXPECT_EQ(complaint(version1("{'descr': '<f4', 'fortran_order': False, "
                               "'shape': (4294967296, 4294967296), }",
                               data)),
            "has more elements than can be counted");
  for (const std::string header :
       {"", "{", "{}", "{'descr'}", "{'descr': '<f4}", "[1]",
        "{'descr': '<f4', 'fortran_order': False}", "{'descr': '<f4', 'descr': '<f4'}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}"}) {
    EXPECT_EQ(complaint(version1(header, data)), invalid) << header;
  }
}

TEST_F(NpyTest, WriterChecksTheShape) {
  const std::vector<float> data{1, 2};
  EXPECT_EQ(message_of([&] { write_npy<float>(path_, std::vector<std::size_t>{3}, data); }),
            "[npy] " + path_.string() + ": the shape (3) got 2 elements");
}

}  // namespace npy_test
}  // namespace longspan
