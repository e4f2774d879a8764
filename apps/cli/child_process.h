// This program again, as a process of its own that answers line by line: its memory is its own, and
// whatever becomes of it, this one goes on.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace longspan::cli {

// A signal asked the program to stop, see StopGuard.
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

class ChildProcess {
 public:
  using Clock = std::chrono::steady_clock;

  // `environment`: "NAME=value" beside what is set already; a name that is set keeps its value.
  ChildProcess(const std::vector<std::string>& arguments,
               const std::vector<std::string>& environment);
  ~ChildProcess();  // ends it
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void send(const std::string& line);
  // The next line; throws Interrupted, and std::runtime_error with a sentence on what became of the
  // process when it ended or `deadline` passed.
  std::string receive(Clock::time_point deadline);

 private:
  [[noreturn]] void throw_ended();

  pid_t id_ = -1;
  int to_ = -1;
  int from_ = -1;
  std::string buffer_;
};

}  // namespace longspan::cli
