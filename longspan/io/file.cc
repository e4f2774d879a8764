#include "longspan/io/file.h"

#include <sys/stat.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "longspan/base/error.h"
#include "longspan/base/memory.h"
#include "longspan/io/disk_calls.h"

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

// O_NONBLOCK: opening a pipe that nobody writes to must not wait for ever.
int open_for_reading(std::string_view who, const std::filesystem::path& path) {
  const int descriptor =
      uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
  if (descriptor < 0) throw_unreadable(who, path, errno);
  return descriptor;
}

}  // namespace

File::File(std::string_view who, std::filesystem::path path)
    : who_(who), path_(std::move(path)), descriptor_(open_for_reading(who_, path_)) {
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
    const ssize_t got = uninterrupted(
        [&] { return ::pread(descriptor_, into.data(), into.size(), static_cast<off_t>(offset)); });
    if (got < 0) throw_unreadable(who_, path_, errno);
    require(got > 0, "[{}] {} ends after {} bytes; need {} more; the file is truncated", who_,
            path_.string(), offset, into.size());
    offset += static_cast<std::uint64_t>(got);
    into = into.subspan(static_cast<std::size_t>(got));
  }
}

void require_readable(std::string_view who, const File& file, std::uint64_t most) {
  require(file.size() <= most, "[{}] {} has {} bytes; need at most {}", who, file.path().string(),
          file.size(), most);
  const std::uint64_t memory = available_memory();
  require(file.size() <= memory, "[{}] {} has {} bytes; the machine has memory for {}", who,
          file.path().string(), file.size(), memory);
}

std::string read_file(std::string_view who, const std::filesystem::path& path, std::uint64_t most) {
  const File file(who, path);
  require_readable(who, file, most);
  std::string text(file.size(), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
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
