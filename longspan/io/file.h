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

// The largest file of each kind that is read as a whole; a larger one is no such file.
inline constexpr std::uint64_t kMostTable = std::uint64_t{1} << 20U;  // what people write by hand
inline constexpr std::uint64_t kMostJson = std::uint64_t{32} << 20U;  // a vocabulary of all scripts
inline constexpr std::uint64_t kMostData = std::uint64_t{64} << 30U;  // texts and images

// Throws Error unless a file of that many bytes may be read into memory: at most `most`, and what
// the machine has left.
void require_readable(std::string_view who, const File& file, std::uint64_t most);

// The whole content of a regular file of at most `most` bytes.
std::string read_file(std::string_view who, const std::filesystem::path& path, std::uint64_t most);

// Text from a file made fit for a message: no control characters, at most 80 bytes.
std::string printable(std::string_view text);

// What the system says about an errno: "No space left on device".
std::string reason(int error);

}  // namespace longspan
