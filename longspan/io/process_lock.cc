#include "longspan/io/process_lock.h"

#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <array>
#include <charconv>
#include <csignal>
#include <string>
#include <utility>

#include "longspan/base/error.h"
#include "longspan/io/disk_calls.h"
#include "longspan/io/file.h"

namespace longspan {

namespace {

// What the file says: the host on its first line, the process on its second.
struct Holder {
  std::string host;
  pid_t process = 0;
};

std::string this_host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this host";
}

Holder read_holder(int descriptor) {
  std::array<char, 512> bytes{};
  const ssize_t got =
      uninterrupted([&] { return ::pread(descriptor, bytes.data(), bytes.size(), 0); });
  const std::string text(bytes.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  const std::size_t line = text.find('\n');
  Holder holder;
  if (line == std::string::npos) return holder;
  std::from_chars(text.data() + line + 1, text.data() + text.size(), holder.process);
  if (holder.process > 0) holder.host = text.substr(0, line);
  return holder;
}

bool lives(pid_t process) { return ::kill(process, 0) == 0 || errno == EPERM; }

}  // namespace

ProcessLock::ProcessLock(std::string_view who, std::filesystem::path file,
                         std::filesystem::path result)
    : who_(who), path_(std::move(file)), result_(std::move(result)) {
  check(open());
  sign();
}

ProcessLock::~ProcessLock() {
  if (descriptor_ < 0) return;
  ::unlink(path_.c_str());
  release();
}

// Whether the system locked it, which some file systems cannot. Whoever holds the lock removes the
// file in the end: then the name no longer leads to what was opened here, and the next try makes a
// new one.
bool ProcessLock::open() {
  for (;;) {
    descriptor_ = uninterrupted(
        [&] { return ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666); });
    if (descriptor_ < 0) fail(errno);
    const bool locked = uninterrupted([&] { return ::flock(descriptor_, LOCK_EX | LOCK_NB); }) == 0;
    if (!locked && errno == EWOULDBLOCK) {
      const Holder holder = read_holder(descriptor_);
      release();
      throw Error(fmt::format("[{}] {} is being written by process {} on {}; need another --out",
                              who_, result_.string(), holder.process, holder.host));
    }
    struct stat held {};
    struct stat named {};
    if (::fstat(descriptor_, &held) != 0) fail(errno);
    if (::lstat(path_.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
        held.st_dev == named.st_dev) {
      return locked;
    }
    release();
  }
}

// What an earlier process left in the file.
void ProcessLock::check(bool locked) {
  const Holder holder = read_holder(descriptor_);
  if (holder.host.empty()) return;
  const bool here = holder.host == this_host();
  if (here && (locked || !lives(holder.process))) return;
  release();
  throw Error(fmt::format("[{}] {} is locked by process {} on {}; when that has ended, remove {}",
                          who_, result_.string(), holder.process, printable(holder.host),
                          path_.string()));
}

void ProcessLock::sign() {
  const std::string text = fmt::format("{}\n{}\n", this_host(), ::getpid());
  if (uninterrupted([&] { return ::ftruncate(descriptor_, 0); }) != 0) fail(errno);
  const ssize_t wrote =
      uninterrupted([&] { return ::pwrite(descriptor_, text.data(), text.size(), 0); });
  if (wrote != static_cast<ssize_t>(text.size())) fail(wrote < 0 ? errno : ENOSPC);
}

void ProcessLock::release() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

void ProcessLock::fail(int error) {
  release();
  throw SystemError(
      fmt::format("[{}] {} could not be written: {}", who_, path_.string(), reason(error)));
}

}  // namespace longspan
