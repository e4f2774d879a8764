#include "longspan/io/atomic_file.h"

#include <sys/file.h>
#include <sys/stat.h>

#include <utility>

#include "longspan/base/error.h"
#include "longspan/io/disk_calls.h"
#include "longspan/io/file.h"

namespace longspan {

namespace fs = std::filesystem;

AtomicFile::AtomicFile(std::string_view who, const fs::path& target) : who_(who), target_(target) {
  // A link stays a link: what it points to is replaced.
  std::error_code ignored;
  if (fs::is_symlink(target_, ignored)) {
    const fs::path pointed = fs::weakly_canonical(target_, ignored);
    if (!ignored) target_ = pointed;
  }
  const fs::file_status status = fs::status(target_, ignored);
  // Renaming over /dev/null would remove the device.
  require(!fs::exists(status) || fs::is_regular_file(status),
          "[{}] {} is not a regular file; need a place for one", who_, target_.string());
  temporary_ = target_;
  temporary_ += ".tmp";
  open_temporary();
  struct stat old {};
  if (::stat(target_.c_str(), &old) == 0) {
    // Keeps the permissions; where that is not allowed, those of a new file do.
    [[maybe_unused]] const int kept = ::fchmod(descriptor_, old.st_mode & 07777U);
  }
}

AtomicFile::~AtomicFile() { discard(); }

// The lock keeps two processes from writing into the same temporary. Whoever waited between open
// and lock may hold a file that has meanwhile become the target: then the name no longer leads to
// it, and the next try makes a new one.
void AtomicFile::open_temporary() {
  for (;;) {
    descriptor_ = uninterrupted([&] {
      return ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    });
    if (descriptor_ < 0) fail(errno);
    const int locked = uninterrupted([&] { return ::flock(descriptor_, LOCK_EX | LOCK_NB); });
    if (locked != 0 && errno == EWOULDBLOCK) {
      ::close(std::exchange(descriptor_, -1));  // not discard(): the temporary is another's
      throw SystemError(
          fmt::format("[{}] {} is being written by another process", who_, target_.string()));
    }
    struct stat held {};
    struct stat named {};
    if (::fstat(descriptor_, &held) != 0) fail(errno);
    if (::lstat(temporary_.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
        held.st_dev == named.st_dev) {
      break;
    }
    ::close(std::exchange(descriptor_, -1));
  }
  if (uninterrupted([&] { return ::ftruncate(descriptor_, 0); }) != 0) fail(errno);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote =
        uninterrupted([&] { return disk_calls().write(descriptor_, bytes.data(), bytes.size()); });
    if (wrote <= 0) fail(wrote < 0 ? errno : EIO);  // a disk that takes nothing never will
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
}

void AtomicFile::commit() {
  if (uninterrupted([&] { return disk_calls().fsync(descriptor_); }) != 0) fail(errno);
  // Renamed while the lock is held, so that nobody else truncates it in between.
  const int renamed =
      uninterrupted([&] { return disk_calls().rename(temporary_.c_str(), target_.c_str()); });
  if (renamed != 0) fail(errno);
  ::close(std::exchange(descriptor_, -1));  // cannot lose anything after fsync
  sync_directory(who_, directory_of(target_));
}

void AtomicFile::discard() noexcept {
  if (descriptor_ < 0) return;
  ::unlink(temporary_.c_str());
  ::close(std::exchange(descriptor_, -1));
}

void AtomicFile::fail(int error) {
  discard();
  std::error_code ignored;
  std::string text =
      fmt::format("[{}] {} could not be written: {}", who_, target_.string(), reason(error));
  if (fs::exists(target_, ignored)) text += "; the previous file is untouched";
  // A directory that is not there is the caller's mistake.
  if (error == ENOENT || error == ENOTDIR || error == ENAMETOOLONG || error == ELOOP) {
    throw Error(text);
  }
  throw SystemError(text);
}

void sync_directory(std::string_view who, const fs::path& directory) {
  const int descriptor =
      uninterrupted([&] { return ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  const bool opened = descriptor >= 0;
  // Some file systems cannot sync a directory and say EINVAL: nothing more can be done there.
  const bool synced =
      opened &&
      (uninterrupted([&] { return disk_calls().fsync(descriptor); }) == 0 || errno == EINVAL);
  const int error = errno;
  if (opened) ::close(descriptor);
  if (synced) return;
  throw SystemError(
      fmt::format("[{}] {} could not be made durable: {}", who, directory.string(), reason(error)));
}

void make_directory(std::string_view who, const fs::path& directory) {
  std::error_code error;
  if (fs::is_directory(directory, error)) return;
  fs::create_directories(directory, error);
  if (error) {
    const std::string text = fmt::format("[{}] the directory {} could not be made: {}", who,
                                         directory.string(), error.message());
    // A path that leads nowhere is the caller's mistake.
    const bool nowhere =
        error == std::errc::too_many_symbolic_link_levels || error == std::errc::filename_too_long;
    if (nowhere) throw Error(text);
    throw SystemError(text);
  }
  const fs::path absolute = fs::absolute(directory).lexically_normal();
  sync_directory(
      who, absolute.has_filename() ? absolute.parent_path() : absolute.parent_path().parent_path());
}

fs::path directory_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace longspan
