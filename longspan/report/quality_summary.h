// What follows from the trials of a comparison on a task: who stands where, and a sentence.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "longspan/report/quality_record.h"

namespace longspan {

// A mechanism over its seeds.
struct Standing {
  std::string mechanism;
  std::size_t trained = 0;  // trials that ended well
  std::size_t trials = 0;
  std::size_t failed = 0;  // diverged, or were refused what they needed
  double mean = 0.0;       // of their quality
  double worst = 0.0;
  double best = 0.0;
  double step_seconds = 0.0;  // the median
  double memory = 0.0;
  std::optional<double> state;
  bool on_front = false;  // nothing that is at least as good takes less time
  bool as_good = false;   // as the best: its best seed reaches the worst of that, and none failed
  std::string reason;     // of the first trial that did not end well
};

// The best first; what was never trained comes last.
std::vector<Standing> standings(const QualityRecord& record);

// "98.94 %" of a share, "1.2345" of anything else.
std::string quality_text(const QualitySettings& settings, double quality);

// What guessing reaches on the task, where a trial says it.
std::optional<double> guess_of(const QualityRecord& record);

// "2 seeds", "1 to 2 seeds" of those that were trained.
std::string seeds_text(const std::vector<Standing>& all);

// Sets the conclusion.
void summarize(QualityRecord& record);

// The trials of both; where both have one, that which ended well, or else that of `more`. Throws
// Error unless they were trained alike.
QualityRecord merge(const QualityRecord& known, const QualityRecord& more);
void check_alike(const QualitySettings& a, const QualitySettings& b);
bool trained_alike(const QualitySettings& a, const QualitySettings& b);
// What was not alike, "steps 20 and 300, options/length 32 and 64".
std::string unlike_text(const QualitySettings& a, const QualitySettings& b);

}  // namespace longspan
