#include "longspan/io/process_lock.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <optional>

#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace process_lock_test {

using testing::message_of;
using testing::read_bytes;
using testing::TemporaryDirectory;
using testing::write_bytes;

std::string host() {
  std::array<char, 256> name{};
  EXPECT_EQ(::gethostname(name.data(), name.size() - 1), 0);
  return name.data();
}

std::string complaint(const std::filesystem::path& directory) {
  return message_of([&] { ProcessLock lock("train", directory / "training.lock", directory); });
}

TEST(ProcessLock, SaysWhoHoldsItAndGoesWithIt) {
  const TemporaryDirectory directory;
  const auto file = directory / "training.lock";
  {
    const ProcessLock lock("train", directory / "training.lock", directory.path());
    EXPECT_EQ(read_bytes(file), fmt::format("{}\n{}\n", host(), ::getpid()));
    EXPECT_EQ(complaint(directory.path()),
              fmt::format("[train] {} is being written by process {} on {}; need another --out",
                          directory.path().string(), ::getpid(), host()));
    EXPECT_TRUE(std::filesystem::exists(file)) << "whoever is refused removes nothing";
  }
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_EQ(complaint(directory.path()), "");
}

TEST(ProcessLock, OfAKilledProcessIsTakenOver) {
  const TemporaryDirectory directory;
  const pid_t child = ::fork();
  if (child == 0) {
    const ProcessLock lock("train", directory / "training.lock", directory.path());
    ::raise(SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(read_bytes(directory / "training.lock"), fmt::format("{}\n{}\n", host(), child));
  const ProcessLock lock("train", directory / "training.lock", directory.path());
  EXPECT_EQ(read_bytes(directory / "training.lock"), fmt::format("{}\n{}\n", host(), ::getpid()));
}

TEST(ProcessLock, OfAnotherHostIsLeftToPeople) {
  const TemporaryDirectory directory;
  const auto file = directory / "training.lock";
  write_bytes(file, "elsewhere\n17\n");
  EXPECT_EQ(complaint(directory.path()),
            fmt::format("[train] {} is locked by process 17 on elsewhere; when that has ended, "
                        "remove {}",
                        directory.path().string(), file.string()));
  EXPECT_EQ(read_bytes(file), "elsewhere\n17\n");
  for (const char* nothing : {"", "half a li", "here\nnobody\n"}) {
    write_bytes(file, nothing);
    EXPECT_EQ(complaint(directory.path()), "");
  }
}

TEST(ProcessLock, ADirectoryThatCannotBeWrittenIsTheMachines) {
  EXPECT_EQ(testing::system_message_of([] {
              ProcessLock lock("train", "/proc/self/training.lock", "/proc/self");
            }).find("[train] /proc/self/training.lock could not be written: "),
            0U);
}

}  // namespace process_lock_test
}  // namespace longspan
