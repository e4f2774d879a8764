// The system calls by which files are written, in one place: a signal interrupts none of them, and
// tests put calls that fail in their place.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>

namespace longspan {

struct DiskCalls {
  ssize_t (*write)(int, const void*, std::size_t) = ::write;
  int (*fsync)(int) = ::fsync;
  int (*rename)(const char*, const char*) = ::rename;
};

// Those of the process.
inline DiskCalls& disk_calls() {
  static DiskCalls calls;
  return calls;
}

// What `call` returns, below 0 with its errno when it failed; called again when a signal came.
template <class Call>
auto uninterrupted(Call call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

}  // namespace longspan
