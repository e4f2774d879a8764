// A file that grows line by line. What was written is there at once, for whoever reads along;
// sync() makes it durable.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace longspan {

class GrowingFile {
 public:
  // Goes on at the end of a file, or makes one. `who` opens every message: "[who] path could not be
  // written: ...".
  GrowingFile(std::string_view who, std::filesystem::path path);
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  void write(std::string_view text);
  void sync();

 private:
  [[noreturn]] void fail(int error) const;

  std::string who_;
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace longspan
