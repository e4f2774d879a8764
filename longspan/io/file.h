// Files for reading: bounds are checked, and every failure is one sentence that names the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace longspan {

// A regular file, open for reading at any offset; safe to share between threads.
class File {
 public:
  // `who` opens every message: "[who] path ...".
  File(std::string_view who, std::filesystem::path path);
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }

  // Fills `into` from `offset`; throws Error when the file ends before that.
  void read_at(std::uint64_t offset, std::span<std::byte> into) const;

 private:
  std::string who_;
  std::filesystem::path path_;
  std::uint64_t size_ = 0;
  int descriptor_ = -1;
};

// The whole content of a file, pipe or device.
std::string read_file(std::string_view who, const std::filesystem::path& path);

// Text from a file made fit for a message: no control characters, at most 80 bytes.
std::string printable(std::string_view text);

// What the system says about an errno: "No space left on device".
std::string reason(int error);

}  // namespace longspan
