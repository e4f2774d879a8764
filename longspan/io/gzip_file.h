// What is packed by gzip (RFC 1952), unpacked from front to back, a piece at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/io/file.h"

namespace longspan {

class GzipFile {
 public:
  GzipFile(std::string_view who, const std::filesystem::path& path);
  ~GzipFile();
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;

  // No packed file unpacks to more: a byte stands for at most 1032.
  std::uint64_t most() const { return 1032 * file_.size(); }

  // Fills `into` with what comes next; throws Error where it ends before that or is damaged.
  void read(std::span<std::byte> into);
  // Throws Error unless all has been read, and its checksum is right.
  void require_end();

 private:
  struct State;
  // How many bytes came; fewer than asked for at the end alone.
  std::size_t inflate_into(std::span<std::byte> into);

  std::string who_;
  File file_;
  std::uint64_t taken_ = 0;  // bytes of the file
  std::vector<std::byte> held_;
  std::unique_ptr<State> state_;
  bool ended_ = false;
};

}  // namespace longspan
