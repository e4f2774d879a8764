#include "longspan/measure/sampling.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "longspan/base/parallel.h"

namespace longspan {

namespace {

double quantile(const std::vector<double>& sorted, double q) {
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

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

double Samples::median() const { return quantile(seconds, 0.5); }

double Samples::spread() const {
  return (quantile(seconds, 0.75) - quantile(seconds, 0.25)) / median();
}

std::vector<Samples> sample(std::span<const Job> jobs, const SampleOptions& options) {
  std::vector<std::size_t> calls;
  for (const Job& job : jobs) {
    job();
    const double once = time_of(job, 1);
    calls.push_back(
        static_cast<std::size_t>(std::clamp(std::ceil(options.least_seconds / once), 1.0, 1e5)));
  }
  std::vector<Samples> samples(jobs.size());
  for (std::size_t round = 0; round < options.rounds; ++round) {
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      samples[j].seconds.push_back(time_of(jobs[j], calls[j]));
    }
  }
  for (Samples& s : samples) std::ranges::sort(s.seconds);
  return samples;
}

}  // namespace longspan
