// A disk that fails, for tests: while it lives, every file of the process is written to it.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <limits>

#include "longspan/io/disk_calls.h"

namespace longspan::testing {

inline constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

struct Faults {
  std::size_t bytes = kNever;    // so many are written, then the disk is full
  std::size_t fsyncs = kNever;   // so many succeed, then the device fails
  std::size_t renames = kNever;  // likewise
  std::size_t calls = kNever;    // of any kind, then the process ends as if killed
  bool interrupted = false;      // every other call is interrupted by a signal first
};

class FailingDisk {
 public:
  explicit FailingDisk(const Faults& faults) : usual_(disk_calls()) {
    left_ = faults;
    done_ = {.bytes = 0, .fsyncs = 0, .renames = 0, .calls = 0};
    disk_calls() = {.write = write, .fsync = fsync, .rename = rename};
  }
  ~FailingDisk() { disk_calls() = usual_; }
  FailingDisk(const FailingDisk&) = delete;
  FailingDisk& operator=(const FailingDisk&) = delete;

  // What was asked of it so far.
  static const Faults& done() { return done_; }

 private:
  static int fail(int error) {
    errno = error;
    return -1;
  }
  // Whether the call goes on.
  static bool begins() {
    done_.interrupted = left_.interrupted && !done_.interrupted;
    if (done_.interrupted) return false;
    if (done_.calls++ == left_.calls) ::_exit(0);
    return true;
  }
  static ssize_t write(int descriptor, const void* bytes, std::size_t size) {
    if (!begins()) return fail(EINTR);
    const std::size_t fits = std::min(size, left_.bytes - done_.bytes);
    if (size > 0 && fits == 0) return fail(ENOSPC);
    done_.bytes += fits;
    return ::write(descriptor, bytes, fits);
  }
  // Nothing waits for the real disk.
  static int fsync(int /*descriptor*/) {
    if (!begins()) return fail(EINTR);
    return done_.fsyncs++ >= left_.fsyncs ? fail(EIO) : 0;
  }
  static int rename(const char* from, const char* to) {
    if (!begins()) return fail(EINTR);
    return done_.renames++ >= left_.renames ? fail(EIO) : ::rename(from, to);
  }

  DiskCalls usual_;
  inline static Faults left_;
  inline static Faults done_;
};

}  // namespace longspan::testing
