// One process at a time writes a result: a file beside it says which process on which host does.
// A process that is killed leaves it behind, but not the system's lock on it: on this host the next
// one takes it over. What was left by another host cannot be judged from here, and is for people to
// remove.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace longspan {

class ProcessLock {
 public:
  // `file` locks `result`; its directory must be there. Throws Error, with who holds it, when
  // another process writes the result.
  ProcessLock(std::string_view who, std::filesystem::path file, std::filesystem::path result);
  ~ProcessLock();  // removes the file
  ProcessLock(const ProcessLock&) = delete;
  ProcessLock& operator=(const ProcessLock&) = delete;

 private:
  bool open();
  void check(bool locked);
  void sign();
  void release() noexcept;
  [[noreturn]] void fail(int error);

  std::string who_;
  std::filesystem::path path_, result_;
  int descriptor_ = -1;
};

}  // namespace longspan
