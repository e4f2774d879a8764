#include "longspan/io/atomic_file.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace atomic_file_test {

namespace fs = std::filesystem;
using testing::message_of;
using testing::read_bytes;
using testing::system_message_of;
using testing::TemporaryDirectory;

void save(const fs::path& path, const std::string& text) {
  AtomicFile file("test", path);
  file.write(text);
  file.commit();
}

std::size_t entries(const fs::path& directory) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
}

TEST(AtomicFile, WritesAndReplaces) {
  const TemporaryDirectory directory;
  const auto path = directory / "a";
  save(path, "one");
  EXPECT_EQ(read_bytes(path), "one");
  ::chmod(path.c_str(), 0640);
  save(path, "");
  EXPECT_EQ(read_bytes(path), "");
  struct stat status {};
  ::stat(path.c_str(), &status);
  EXPECT_EQ(status.st_mode & 0777U, 0640U);
  EXPECT_EQ(entries(directory.path()), 1U);
}

TEST(AtomicFile, WithoutCommitNothingHappens) {
  const TemporaryDirectory directory;
  const auto path = directory / "a";
  save(path, "old");
  {
    AtomicFile file("test", path);
    file.write("new");
    EXPECT_EQ(read_bytes(path), "old");
  }
  EXPECT_EQ(read_bytes(path), "old");
  EXPECT_EQ(entries(directory.path()), 1U);
}

TEST(AtomicFile, TakesOverTheTemporaryOfAKilledRun) {
  const TemporaryDirectory directory;
  const auto path = directory / "a";
  for (int i = 0; i < 3; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      AtomicFile file("test", path);
      file.write("a longer text that was never finished");
      ::raise(SIGKILL);
    }
    ::waitpid(child, nullptr, 0);
    EXPECT_FALSE(fs::exists(path));
    EXPECT_EQ(entries(directory.path()), 1U);
  }
  save(path, "new");
  EXPECT_EQ(read_bytes(path), "new");
  EXPECT_EQ(entries(directory.path()), 1U);
}

TEST(AtomicFile, KeepsLinksAndDevices) {
  const TemporaryDirectory directory;
  const auto link = directory / "link";
  save(directory / "a", "old");
  fs::create_symlink("a", link);
  save(link, "new");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_bytes(directory / "a"), "new");
  EXPECT_EQ(message_of([] { save("/dev/full", "x"); }),
            "[test] /dev/full is not a regular file; need a place for one");
  EXPECT_NE(message_of([&] { save(directory.path(), "x"); }), "");
}

TEST(AtomicFile, TwoWritersDoNotMix) {
  const TemporaryDirectory directory;
  const auto path = directory / "a";
  const AtomicFile first("test", path);
  EXPECT_EQ(system_message_of([&] { save(path, "x"); }),
            "[test] " + path.string() + " is being written by another process");
}

TEST(AtomicFile, RacingWritersLeaveOneWholeFile) {
  const TemporaryDirectory directory;
  const auto path = directory / "a";
  std::vector<std::thread> writers;
  for (const char letter : {'a', 'b', 'c', 'd'}) {
    writers.emplace_back([&path, letter] {
      for (int i = 0; i < 100; ++i)
        system_message_of([&] { save(path, std::string(1000, letter)); });
    });
  }
  for (auto& writer : writers) writer.join();
  const std::string text = read_bytes(path);
  EXPECT_EQ(text, std::string(1000, text.at(0)));
  EXPECT_EQ(entries(directory.path()), 1U);
}

TEST(AtomicFile, MissingDirectory) {
  const TemporaryDirectory directory;
  const auto path = directory / "no";
  EXPECT_EQ(message_of([&] { save(path / "a", "x"); }),
            "[test] " + (path / "a").string() + " could not be written: No such file or directory");
}

// Runs `body` in a child process, since it changes limits, user or mounts; its answer comes back
// through a pipe.
template <class Body>
std::string in_child(Body body) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string answer = body();
    ::_exit(::write(ends[1], answer.data(), answer.size()) < 0 ? 1 : 0);
  }
  ::close(ends[1]);
  std::string answer(1000, '\0');
  const ssize_t got = ::read(ends[0], answer.data(), answer.size());
  answer.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return answer;
}

// A write that fails half way: the limit lets the first half through.
TEST(AtomicFile, AFailingWriteLeavesTheOldFile) {
  const TemporaryDirectory directory;
  const auto path = directory / "a";
  save(path, "old");
  const std::string message = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 1000, .rlim_max = 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    return system_message_of([&] { save(path, std::string(2000, 'x')); });
  });
  EXPECT_EQ(message, "[test] " + path.string() +
                         " could not be written: File too large; the previous file is untouched");
  EXPECT_EQ(read_bytes(path), "old");
  EXPECT_EQ(entries(directory.path()), 1U);
}

TEST(AtomicFile, NoPermission) {
  const TemporaryDirectory directory;
  const auto path = directory / "a";
  save(path, "old");
  const std::string message = in_child([&]() -> std::string {
    ::chmod(directory.path().c_str(), 0555);
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return "skipped";
    return system_message_of([&] { save(path, "new"); });
  });
  ::chmod(directory.path().c_str(), 0755);
  if (message == "skipped") GTEST_SKIP() << "cannot become another user";
  EXPECT_TRUE(
      message.starts_with("[test] " + path.string() + " could not be written: Permission denied"))
      << message;
  EXPECT_EQ(read_bytes(path), "old");
}

// A file system of 64 KB in a mount namespace of its own, where the system allows that.
TEST(AtomicFile, AFullDiskLeavesTheOldFile) {
  const TemporaryDirectory directory;
  const auto disk = directory / "disk";
  fs::create_directory(disk);
  const std::string message = in_child([&]() -> std::string {
    const bool mounted =
        (::unshare(CLONE_NEWNS) == 0 || ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) &&
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
        ::mount("none", disk.c_str(), "tmpfs", 0, "size=64k") == 0;
    if (!mounted) return "skipped";
    save(disk / "a", "old");
    std::string text = system_message_of([&] { save(disk / "a", std::string(100'000, 'x')); });
    if (read_bytes(disk / "a") != "old") text += " but the old file is gone";
    if (entries(disk) != 1) text += " but the temporary is left";
    return text;
  });
  if (message == "skipped") GTEST_SKIP() << "cannot mount";
  EXPECT_EQ(message, "[test] " + (disk / "a").string() +
                         " could not be written: No space left on device; the previous file is "
                         "untouched");
}

}  // namespace atomic_file_test
}  // namespace longspan
