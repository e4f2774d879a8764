// Preloaded into the program (LD_PRELOAD), this makes one of its calls of the system fail.
//
//   FAILING_CALL=n   the n-th, counted from 1
//   FAILING_HOW      of the calls that write files
//                      error: it and all after it fail
//                      kill: the process is killed before it
//                      interrupt: it and every other one after it are interrupted by a signal
//                      full: the disk has room for n bytes
//                    of the calls that ask for memory, of the program but not of its workers
//                      memory: it is refused
//                      no memory: it and all after it are refused
//   FAILING_FROM     memory is counted from the beginning of main; rename: from the first file that
//                    is renamed
//
// Standard streams and pipes are left alone.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>

extern "C" {
void* __libc_malloc(size_t bytes);                      // NOLINT: glibc's own, for those who
void* __libc_calloc(size_t count, size_t bytes);        // NOLINT: put theirs in front of it
void* __libc_realloc(void* old, size_t bytes);          // NOLINT
void* __libc_memalign(size_t alignment, size_t bytes);  // NOLINT
}

namespace {

struct Plan {
  long at = 0;
  std::string_view how;
  std::string_view from = "main";
};

constinit Plan plan;                 // NOLINT: the calls below have no other place
std::atomic<bool> counting = false;  // NOLINT: of what asks for memory
std::atomic<long> asked = 0;         // NOLINT

__attribute__((constructor)) void read_plan(int count, char** arguments, char** /*environment*/) {
  const char* const at = std::getenv("FAILING_CALL");
  const char* const how = std::getenv("FAILING_HOW");
  if (at == nullptr || how == nullptr) return;
  plan = {.at = std::atol(at), .how = how};
  if (const char* const from = std::getenv("FAILING_FROM")) plan.from = from;
  const bool worker = count > 1 && std::string_view(arguments[1]) == "compare-worker";
  if (worker && plan.how.ends_with("memory")) plan = {};
}

// Whether the writing call that comes now fails; errno says how.
bool fails() {
  static long calls = 0;
  if (plan.how.empty() || plan.how == "full" || plan.how.ends_with("memory")) return false;
  const long past = ++calls - plan.at;
  if (past < 0) return false;
  if (plan.how == "kill") ::kill(::getpid(), SIGKILL);
  const bool interrupts = plan.how == "interrupt";
  errno = interrupts ? EINTR : EIO;
  return !interrupts || past % 2 == 0;
}

bool is_file(int descriptor) {
  struct stat status {};
  return descriptor > STDERR_FILENO && ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

// How many of so many bytes have room.
size_t room(size_t size) {
  static size_t used = 0;
  if (plan.how != "full") return size;
  const size_t fits = std::min(size, static_cast<size_t>(plan.at) - used);
  used += fits;
  return fits;
}

void count_from(std::string_view where) {
  if (plan.how.ends_with("memory") && plan.from == where) counting = true;
}

bool refused() {
  if (!counting.load(std::memory_order_relaxed)) return false;
  const long past = ++asked - plan.at;
  if (past < 0 || (past > 0 && plan.how == "memory")) return false;
  errno = ENOMEM;
  return true;
}

template <class Call>
Call* next(const char* name) {
  return reinterpret_cast<Call*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t write(int descriptor, const void* bytes, size_t size) {
  static auto* const usual = next<ssize_t(int, const void*, size_t)>("write");
  if (!is_file(descriptor)) return usual(descriptor, bytes, size);
  if (fails()) return -1;
  const size_t fits = room(size);
  if (fits > 0 || size == 0) return usual(descriptor, bytes, fits);
  errno = ENOSPC;
  return -1;
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
  if (fails()) return -1;
  const int done = usual(from, to);
  count_from("rename");
  return done;
}

// The first thing that main does.
sighandler_t signal(int number, sighandler_t handler) noexcept {
  static auto* const usual = next<sighandler_t(int, sighandler_t)>("signal");
  const sighandler_t before = usual(number, handler);
  count_from("main");
  return before;
}

void* malloc(size_t bytes) noexcept { return refused() ? nullptr : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) noexcept {
  return refused() ? nullptr : __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) noexcept {
  return refused() ? nullptr : __libc_realloc(old, bytes);
}
void* memalign(size_t alignment, size_t bytes) noexcept {
  return refused() ? nullptr : __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) noexcept { return memalign(alignment, bytes); }
int posix_memalign(void** to, size_t alignment, size_t bytes) noexcept {
  *to = memalign(alignment, bytes);
  return *to == nullptr ? ENOMEM : 0;
}

}  // extern "C"
