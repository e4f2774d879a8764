#include "longspan/predict/sampling.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "longspan/base/parallel.h"

namespace longspan {

namespace {

double time_of(const Job& job, std::size_t calls) {
  const double start = stopwatch_seconds();
  for (std::size_t i = 0; i < calls; ++i) job();
  return (stopwatch_seconds() - start) / static_cast<double>(calls);
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
  std::vector<std::size_t> calls;
  std::vector<bool> short_jobs;
  for (const Job& job : jobs) {
    double once = time_of(job, 1);
    if (once < options.least_seconds) once = time_of(job, 1);  // the first may have been slow
    short_jobs.push_back(once < kShort);
    calls.push_back(
        static_cast<std::size_t>(std::clamp(std::ceil(options.least_seconds / once), 1.0, 1e5)));
  }
  constexpr double kScattered = 0.05;
  std::vector<Samples> samples(jobs.size());
  for (std::size_t round = 0; round < options.most_rounds; ++round) {
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      Samples& s = samples[j];
      if (round >= options.rounds && s.spread() < kScattered) continue;
      if (short_jobs[j]) jobs[j]();  // finds again what the others put out of the caches
      const double seconds = time_of(jobs[j], calls[j]);
      s.seconds.insert(std::ranges::upper_bound(s.seconds, seconds), seconds);
    }
  }
  return samples;
}

}  // namespace longspan
