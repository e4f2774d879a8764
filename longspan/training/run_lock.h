// One training at a time writes into a directory.
//
// The file training.lock says which process on which host does. A process that is killed leaves it
// behind, but not the system's lock on it: on this host the next one takes it over. What was left
// by another host cannot be judged from here, and is for people to remove.
#pragma once

#include <filesystem>

namespace longspan {

class RunLock {
 public:
  // The directory must be there. Throws Error, with who holds it, when another one trains in it.
  explicit RunLock(const std::filesystem::path& directory);
  ~RunLock();  // removes the file
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  bool open();
  void check(bool locked);
  void sign();
  void release() noexcept;
  [[noreturn]] void fail(int error);

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace longspan
