#include "longspan/io/growing_file.h"

#include <utility>

#include "longspan/base/error.h"
#include "longspan/io/disk_calls.h"
#include "longspan/io/file.h"

namespace longspan {

GrowingFile::GrowingFile(std::string_view who, std::filesystem::path path)
    : who_(who), path_(std::move(path)) {
  descriptor_ = uninterrupted(
      [&] { return ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666); });
  if (descriptor_ < 0) fail(errno);
}

GrowingFile::~GrowingFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void GrowingFile::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote =
        uninterrupted([&] { return disk_calls().write(descriptor_, text.data(), text.size()); });
    if (wrote <= 0) fail(wrote < 0 ? errno : EIO);  // a disk that takes nothing never will
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
}

void GrowingFile::sync() {
  if (uninterrupted([&] { return disk_calls().fsync(descriptor_); }) != 0) fail(errno);
}

void GrowingFile::fail(int error) const {
  throw SystemError(
      fmt::format("[{}] {} could not be written: {}", who_, path_.string(), reason(error)));
}

}  // namespace longspan
