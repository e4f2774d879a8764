// Signals that ask the program to stop: SIGHUP, SIGINT (Ctrl-C) and SIGTERM. They end it at once,
// with 129, 130 and 143, unless it has something to keep.
//
// A thread waits for them, and no handler interrupts the others: what oneDNN compiles for AVX-512
// keeps data below the stack's red zone, where a handler's frame would overwrite it.
#pragma once

#include <string>

namespace longspan::cli {

// Before any other thread begins, which therefore hears no signals.
void watch_for_stops();

// While it lives, such a signal is noted instead. A second Ctrl-C ends the program all the same; of
// the others several come as one, when a terminal is closed or a machine shuts down.
class StopGuard {
 public:
  StopGuard();
  ~StopGuard();
  StopGuard(const StopGuard&) = delete;
  StopGuard& operator=(const StopGuard&) = delete;

  // The first signal that came, 0 if none.
  static int signal();
};

// Thrown by a command that has kept what it had: the program ends with 128 + signal.
struct Stopped {
  int signal;
  std::string sentence;  // on standard error; nothing where it is empty
};

// What a child process ignores, because its parent decides: a terminal asks both.
void ignore_stops();

}  // namespace longspan::cli
