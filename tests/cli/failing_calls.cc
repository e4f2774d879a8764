// Preloaded into the program (LD_PRELOAD), this makes one of its system calls on files fail.
//
//   FAILING_CALL=n   the n-th call, counted from 1, of those that write
//   FAILING_HOW      error: it and all after it fail; kill: the process is killed before it;
//                    interrupt: it and every other one after it are interrupted by a signal
//
// Standard streams are left alone.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>

namespace {

// Whether the call that comes now fails; errno says how.
bool fails() {
  static const char* const at = std::getenv("FAILING_CALL");
  static const char* const how = std::getenv("FAILING_HOW");
  static long calls = 0;
  if (at == nullptr || how == nullptr) return false;
  const long past = ++calls - std::atol(at);
  if (past < 0) return false;
  if (std::string_view(how) == "kill") ::kill(::getpid(), SIGKILL);
  const bool interrupts = std::string_view(how) == "interrupt";
  errno = interrupts ? EINTR : EIO;
  return !interrupts || past % 2 == 0;
}

template <class Call>
Call* next(const char* name) {
  return reinterpret_cast<Call*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t write(int descriptor, const void* bytes, size_t size) {
  static auto* const usual = next<ssize_t(int, const void*, size_t)>("write");
  return descriptor > STDERR_FILENO && fails() ? -1 : usual(descriptor, bytes, size);
}

int ftruncate(int descriptor, off_t size) noexcept {
  static auto* const usual = next<int(int, off_t)>("ftruncate");
  return fails() ? -1 : usual(descriptor, size);
}

int fsync(int descriptor) {
  static auto* const usual = next<int(int)>("fsync");
  return fails() ? -1 : usual(descriptor);
}

int rename(const char* from, const char* to) noexcept {
  static auto* const usual = next<int(const char*, const char*)>("rename");
  return fails() ? -1 : usual(from, to);
}

}  // extern "C"
