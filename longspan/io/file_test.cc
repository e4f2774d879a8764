// What is refused before it is read: whatever is no regular file of a size that its kind can have.
#include "longspan/io/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "longspan/io/idx.h"
#include "longspan/io/json_file.h"
#include "longspan/io/safetensors.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace file_test {

namespace fs = std::filesystem;
using testing::message_of;
using testing::TemporaryDirectory;
using testing::write_bytes;

std::string complaint(const fs::path& path) {
  return message_of([&] { read_file("test", path, 10); });
}

TEST(ReadFile, TakesRegularFilesUpToTheirBound) {
  const TemporaryDirectory scratch;
  const fs::path path = scratch / "a";
  write_bytes(path, "0123456789");
  EXPECT_EQ(read_file("test", path, 10), "0123456789");
  write_bytes(path, "");
  EXPECT_EQ(read_file("test", path, 10), "");
  write_bytes(path, "0123456789a");
  EXPECT_EQ(complaint(path), "[test] " + path.string() + " has 11 bytes; need at most 10");
}

// None of these ends, or even begins.
TEST(ReadFile, RefusesWhatIsNoFileAtOnce) {
  const TemporaryDirectory scratch;
  const fs::path pipe = scratch / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(complaint(pipe),
            "[test] " + pipe.string() + " is a device or a pipe; need a regular file");
  EXPECT_EQ(complaint("/dev/zero"), "[test] /dev/zero is a device or a pipe; need a regular file");
  EXPECT_EQ(complaint(scratch.path()),
            "[test] " + scratch.path().string() + " is a directory; need a regular file");
  EXPECT_EQ(message_of([] { read_json("/dev/zero"); }),
            "[json] /dev/zero is a device or a pipe; need a regular file");
}

TEST(ReadFile, RefusesWhatMemoryCannotHold) {
  const TemporaryDirectory scratch;
  const fs::path path = scratch / "a";
  write_bytes(path, "");
  fs::resize_file(path, std::uint64_t{8} << 40U);  // no block of the disk is taken
  const std::uint64_t any = std::uint64_t{1} << 60U;
  EXPECT_NE(message_of([&] { read_file("test", path, any); }).find("; the machine has memory for "),
            std::string::npos);
}

TEST(ReadFile, NothingHidesBehindANul) {
  const std::string hidden("{\"a\": 1}\0{\"a\": 2}", 18);
  EXPECT_EQ(message_of([&] { parse_json("[test]", hidden); }),
            "[test]: byte 8 is a NUL; need valid JSON");
}

std::string tensors_with(const std::string& header) {
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<char>(header.size() >> (8 * i) & 0xFFU);
  }
  return bytes + header;
}

TEST(ReadFile, AHeaderOfTensorsIsOneObjectAndNotLong) {
  const TemporaryDirectory scratch;
  const fs::path path = scratch / "a";
  const auto header = [&](const std::string& text) {
    write_bytes(path, tensors_with(text));
    return message_of([&] { SafetensorsFile{path}; });
  };
  const std::string where = "[safetensors] " + path.string() + ": ";
  EXPECT_EQ(header("{}  "), "");
  EXPECT_EQ(header("  {}"), where + "the header does not begin with its brace");
  EXPECT_EQ(header(std::string("{}\0x", 4)),
            where + "the header: byte 2 is a NUL; need valid JSON");
  EXPECT_EQ(header("{}" + std::string(17'000'000, ' ')),
            where + "the header has 17000002 bytes; need at most 16777216");
}

// 4 · 1073741825 · 4294967295 = 2^64 + 12884901884, and the file has just those bytes.
TEST(ReadFile, SizesOfIdxDoNotWrapAround) {
  const TemporaryDirectory scratch;
  const fs::path path = scratch / "a";
  using namespace std::string_literals;
  write_bytes(path, "\0\0\x08\x03\0\0\0\x04\x40\0\0\x01\xFF\xFF\xFF\xFF"s);
  fs::resize_file(path, 16 + 12'884'901'884U);
  EXPECT_NE(message_of([&] { read_idx(path); }), "");
}

}  // namespace file_test
}  // namespace longspan
