// Times of jobs, measured so that a neighbour who comes and goes disturbs all of them alike: the
// jobs take turns, round by round, and each is judged by its median.
//
// One thread is timed by its own processor time, which waiting for a core does not lengthen;
// several threads by the clock on the wall.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace longspan {

// Seconds since some moment.
double stopwatch_seconds();

struct Samples {
  std::vector<double> seconds;  // of one call, sorted

  double best() const { return seconds.front(); }
  double quantile(double q) const;  // 0 to 1
  double median() const { return quantile(0.5); }
  // The first quartile: neighbours only ever lengthen a sample.
  double undisturbed() const { return quantile(0.25); }
  // (third − first quartile) / median
  double spread() const;
};

using Job = std::function<void()>;

struct SampleOptions {
  std::size_t rounds = 5;
  std::size_t most_rounds = 15;  // for jobs whose samples scatter
  double least_seconds = 2e-3;   // a sample is as many calls as take this long
  // By the clock on the wall, whatever the machine does beside: when nothing is repeated any more,
  // and when it is given up, as not every job had its first call.
  double enough_seconds = 1e9;
  double most_seconds = 1e9;
};

// One warm-up call each, then the rounds, then more of them for those that were disturbed; of a job
// that had no round in time the warm-up call counts. Throws SystemError after most_seconds.
std::vector<Samples> sample(std::span<const Job> jobs, const SampleOptions& options = {});

}  // namespace longspan
