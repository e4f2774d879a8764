#include "longspan/predict/sampling.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>

#include "longspan/base/error.h"
#include "longspan/base/parallel.h"

namespace longspan {

namespace {

using WallClock = std::chrono::steady_clock;

double wall_since(WallClock::time_point start) {
  return std::chrono::duration<double>(WallClock::now() - start).count();
}

// The mean of so many calls. Several threads wait for each other, on a busy machine longer than
// they work: calls that were short when they were counted may take a thousand times as long, and
// are then fewer.
double time_of(const Job& job, std::size_t calls, double expected) {
  constexpr std::size_t kUnwatched = 8;
  const double most = 10.0 * expected;
  const bool waits = thread_count() > 1;
  const WallClock::time_point begun = WallClock::now();
  const double start = stopwatch_seconds();
  std::size_t made = 0;
  while (made < calls) {
    job();
    if (++made % kUnwatched == 0 && waits && wall_since(begun) > most) break;
  }
  return (stopwatch_seconds() - start) / static_cast<double>(made);
}

// Before the first calls of a job.
void check_time(WallClock::time_point start, const SampleOptions& options, std::size_t done,
                std::size_t jobs) {
  if (wall_since(start) <= options.most_seconds) return;
  throw SystemError(
      fmt::format("[calibrate] the machine is too busy: {} of {} measurements took {:.0f} s; need "
                  "a quieter one, or fewer --threads",
                  done, jobs, wall_since(start)));
}

}  // namespace

double stopwatch_seconds() {
  timespec now{};
  clock_gettime(thread_count() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double Samples::quantile(double q) const {
  const double place = q * static_cast<double>(seconds.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, seconds.size() - 1);
  return seconds[below] + (place - static_cast<double>(below)) * (seconds[above] - seconds[below]);
}

double Samples::spread() const { return (quantile(0.75) - quantile(0.25)) / median(); }

std::vector<Samples> sample(std::span<const Job> jobs, const SampleOptions& options) {
  constexpr double kShort = 0.02;  // seconds; longer jobs fill the caches in a part of their time
  const WallClock::time_point start = WallClock::now();
  const auto enough = [&] { return wall_since(start) > options.enough_seconds; };
  std::vector<std::size_t> calls;
  std::vector<double> first;
  for (const Job& job : jobs) {
    check_time(start, options, calls.size(), jobs.size());
    double once = time_of(job, 1, options.least_seconds);
    // The first may have been slow.
    if (once < options.least_seconds && !enough()) once = time_of(job, 1, options.least_seconds);
    first.push_back(once);
    calls.push_back(
        static_cast<std::size_t>(std::clamp(std::ceil(options.least_seconds / once), 1.0, 1e5)));
  }
  constexpr double kScattered = 0.05;
  std::vector<Samples> samples(jobs.size());
  for (std::size_t round = 0; round < options.most_rounds; ++round) {
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      Samples& s = samples[j];
      if (enough()) {
        if (s.seconds.empty()) s.seconds.push_back(first[j]);
        continue;
      }
      if (round >= options.rounds && s.spread() < kScattered) continue;
      if (first[j] < kShort) jobs[j]();  // finds again what the others put out of the caches
      const double seconds = time_of(jobs[j], calls[j], options.least_seconds);
      s.seconds.insert(std::ranges::upper_bound(s.seconds, seconds), seconds);
    }
  }
  return samples;
}

}  // namespace longspan
