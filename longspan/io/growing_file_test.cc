#include "longspan/io/growing_file.h"

#include <gtest/gtest.h>

#include "longspan/base/error.h"
#include "longspan/io/disk_calls.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace growing_file_test {

using testing::read_bytes;
using testing::system_message_of;

TEST(GrowingFile, GoesOnWhereItEnded) {
  const testing::TemporaryDirectory scratch;
  for (const char* line : {"a\n", "b\n"}) {
    GrowingFile file("log", scratch / "lines");
    file.write(line);
    EXPECT_EQ(read_bytes(scratch / "lines").back(), '\n') << "there at once";
    file.sync();
  }
  EXPECT_EQ(read_bytes(scratch / "lines"), "a\nb\n");
}

TEST(GrowingFile, EveryFailureIsNoticed) {
  const testing::TemporaryDirectory scratch;
  const DiskCalls usual = disk_calls();
  GrowingFile file("log", scratch / "lines");
  const std::string path = (scratch / "lines").string();
  disk_calls().write = [](int, const void*, std::size_t) -> ssize_t {
    errno = ENOSPC;
    return -1;
  };
  const std::string full = system_message_of([&] { file.write("a\n"); });
  disk_calls().write = [](int, const void*, std::size_t) -> ssize_t { return 0; };
  const std::string nothing = system_message_of([&] { file.write("a\n"); });
  disk_calls().fsync = [](int) {
    errno = EIO;
    return -1;
  };
  const std::string lost = system_message_of([&] { file.sync(); });
  disk_calls() = usual;
  EXPECT_EQ(full, "[log] " + path + " could not be written: No space left on device");
  EXPECT_EQ(nothing, "[log] " + path + " could not be written: Input/output error");
  EXPECT_EQ(lost, "[log] " + path + " could not be written: Input/output error");
  EXPECT_NE(system_message_of([&] { GrowingFile("log", scratch / "none" / "lines"); }), "");
}

}  // namespace growing_file_test
}  // namespace longspan
