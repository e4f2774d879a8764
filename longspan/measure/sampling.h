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
  double median() const;
  // The median, or the best where the samples scatter: neighbours only ever lengthen them.
  double undisturbed() const { return spread() > 0.1 ? best() : median(); }
  // (third − first quartile) / median
  double spread() const;
};

using Job = std::function<void()>;

struct SampleOptions {
  std::size_t rounds = 5;
  double least_seconds = 2e-3;  // a sample is as many calls as take this long
};

// One warm-up call each, then the rounds.
std::vector<Samples> sample(std::span<const Job> jobs, const SampleOptions& options = {});

}  // namespace longspan
