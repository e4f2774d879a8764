// A file that appears whole or not at all.
//
//   write to target.tmp → fsync → rename over target → fsync of the directory
//
// Whatever fails, and whenever the process is killed, the target is either the old file or the new
// one. The temporary has one fixed name per target, so killed runs leave at most one, and the next
// write takes it over.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace longspan {

class AtomicFile {
 public:
  // `who` opens every message: "[who] path could not be written: ...".
  AtomicFile(std::string_view who, const std::filesystem::path& target);
  // Without commit(), removes the temporary and leaves the target as it was.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  // Makes what was written durable and puts it in place of the target.
  void commit();

 private:
  void open_temporary();
  void discard() noexcept;
  [[noreturn]] void fail(int error);

  std::string who_;
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

// Makes the entries of a directory durable: new names, renames, removals.
void sync_directory(std::string_view who, const std::filesystem::path& directory);

// Makes a directory, and those above it, where there is none.
void make_directory(std::string_view who, const std::filesystem::path& directory);

// The directory that a file of this path is in.
std::filesystem::path directory_of(const std::filesystem::path& path);

}  // namespace longspan
