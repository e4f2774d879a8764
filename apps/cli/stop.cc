#include "stop.h"

#include <unistd.h>

#include <array>
#include <csignal>

namespace longspan::cli {

namespace {

constexpr std::array kStops = {SIGHUP, SIGINT, SIGTERM};

volatile std::sig_atomic_t first_stop = 0;                // NOLINT: handlers reach nothing else
std::array<struct sigaction, kStops.size()> usual_stops;  // NOLINT

void note_stop(int number) {
  if (number == SIGINT && first_stop == SIGINT) _exit(128 + number);
  if (first_stop == 0) first_stop = number;
}

}  // namespace

StopGuard::StopGuard() {
  first_stop = 0;
  struct sigaction action {};
  action.sa_handler = note_stop;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kStops.size(); ++i) {
    sigaction(kStops[i], &action, &usual_stops[i]);
    // nohup says that a closed terminal is no reason to stop.
    const bool nohup = kStops[i] == SIGHUP && usual_stops[i].sa_handler == SIG_IGN;
    if (nohup) sigaction(kStops[i], &usual_stops[i], nullptr);
  }
}

StopGuard::~StopGuard() {
  for (std::size_t i = 0; i < kStops.size(); ++i) sigaction(kStops[i], &usual_stops[i], nullptr);
}

int StopGuard::signal() { return first_stop; }

void ignore_stops() {
  for (const int number : kStops) std::signal(number, SIG_IGN);
}

}  // namespace longspan::cli
