#include "longspan/io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "longspan/base/error.h"

namespace longspan {

namespace {

// What the user can put right is an Error; a failing disk or an exhausted system is not.
[[noreturn]] void throw_unreadable(std::string_view who, const std::filesystem::path& path,
                                   int error) {
  if (error == ENOENT) throw Error(fmt::format("[{}] {} does not exist", who, path.string()));
  const std::string text =
      fmt::format("[{}] {} could not be read: {}", who, path.string(), reason(error));
  const bool machine = error == EIO || error == ENOMEM || error == EMFILE || error == ENFILE;
  if (machine) throw SystemError(text);
  throw Error(text);
}

int open_for_reading(std::string_view who, const std::filesystem::path& path, int flags) {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) throw_unreadable(who, path, errno);
  return descriptor;
}

}  // namespace

// O_NONBLOCK: opening a pipe that nobody writes to must fail below, not wait for ever.
File::File(std::string_view who, std::filesystem::path path)
    : who_(who), path_(std::move(path)), descriptor_(open_for_reading(who_, path_, O_NONBLOCK)) {
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    const int error = errno;
    ::close(std::exchange(descriptor_, -1));
    if (!known) throw_unreadable(who_, path_, error);
    throw Error(fmt::format("[{}] {} is {}; need a regular file", who_, path_.string(),
                            S_ISDIR(status.st_mode) ? "a directory" : "a device or a pipe"));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

File::File(File&& other) noexcept
    : who_(std::move(other.who_)),
      path_(std::move(other.path_)),
      size_(other.size_),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(who_, other.who_);
  std::swap(path_, other.path_);
  std::swap(size_, other.size_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void File::read_at(std::uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t got = ::pread(descriptor_, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_unreadable(who_, path_, errno);
    require(got > 0, "[{}] {} ends after {} bytes; need {} more; the file is truncated", who_,
            path_.string(), offset, into.size());
    offset += static_cast<std::uint64_t>(got);
    into = into.subspan(static_cast<std::size_t>(got));
  }
}

std::string read_file(std::string_view who, const std::filesystem::path& path) {
  const int descriptor = open_for_reading(who, path, 0);
  struct Closer {
    int descriptor;
    ~Closer() { ::close(descriptor); }
  } const closer{descriptor};

  constexpr std::size_t kLeastChunk = std::size_t{1} << 16U;
  struct stat status {};
  std::size_t chunk = kLeastChunk;
  // One byte more than the file has, so that its end is seen without another chunk.
  if (::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)) {
    chunk = std::max(chunk, static_cast<std::size_t>(status.st_size) + 1);
  }
  std::string text;
  std::size_t used = 0;
  for (;;) {
    if (used == text.size()) text.resize(used + std::max(chunk, used / 2));
    const ssize_t got = ::read(descriptor, text.data() + used, text.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_unreadable(who, path, errno);
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
    chunk = kLeastChunk;
  }
  text.resize(used);
  return text;
}

std::string printable(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  const bool cut = text.size() > kLongest;
  if (cut) {
    std::size_t end = kLongest;
    while (end > kLongest - 4 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
    text = text.substr(0, end);  // not inside a UTF-8 character
  }
  std::string safe(text);
  std::ranges::replace_if(
      safe, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, '?');
  return cut ? safe + "..." : safe;
}

std::string reason(int error) { return std::error_code(error, std::generic_category()).message(); }

}  // namespace longspan
