#include "stop.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>

namespace longspan::cli {

namespace {

constexpr std::array kStops = {SIGHUP, SIGINT, SIGTERM};
constexpr std::size_t kWatcherStack = 65536;

std::atomic<bool> guarded = false;  // NOLINT: the watcher reaches nothing else
std::atomic<int> first_stop = 0;    // NOLINT

// What the program does not ignore: nohup, or the parent of a worker, says what it does.
sigset_t heard_stops() {
  sigset_t stops;
  sigemptyset(&stops);
  for (const int number : kStops) {
    struct sigaction usual {};
    sigaction(number, nullptr, &usual);
    if (usual.sa_handler != SIG_IGN) sigaddset(&stops, number);
  }
  return stops;
}

void end_by(int number) {
  std::signal(number, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, number);
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  raise(number);
}

void note_stop(int number) {
  if (!guarded) end_by(number);
  int none = 0;
  const bool first = first_stop.compare_exchange_strong(none, number);
  if (!first && number == SIGINT && none == SIGINT) _exit(128 + number);
}

void* watch_stops(void* /*nothing*/) {
  const sigset_t stops = heard_stops();
  for (;;) {
    int number = 0;
    if (sigwait(&stops, &number) == 0) note_stop(number);
  }
  return nullptr;
}

}  // namespace

void watch_for_stops() {
  const sigset_t stops = heard_stops();
  pthread_sigmask(SIG_BLOCK, &stops, nullptr);
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, kWatcherStack);
  pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
  pthread_t watcher{};
  const bool watches = pthread_create(&watcher, &small, &watch_stops, nullptr) == 0;
  pthread_attr_destroy(&small);
  // A machine that refuses the thread leaves every signal to end the program at once.
  if (!watches) pthread_sigmask(SIG_UNBLOCK, &stops, nullptr);
}

StopGuard::StopGuard() {
  first_stop = 0;
  guarded = true;
}

StopGuard::~StopGuard() { guarded = false; }

int StopGuard::signal() { return first_stop; }

void ignore_stops() {
  for (const int number : kStops) std::signal(number, SIG_IGN);
}

}  // namespace longspan::cli
