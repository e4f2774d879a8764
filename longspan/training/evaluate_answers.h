// How many of its answers an encoder–decoder writes right, from the source alone: nothing of the
// target is shown to it, and an answer is right where it is the target and ends where that does.
#pragma once

#include "longspan/tasks/task.h"
#include "longspan/training/beam_search.h"

namespace longspan {

struct AnswerTally {
  std::size_t counted = 0;
  std::size_t exact = 0;

  double share() const { return static_cast<double>(exact) / static_cast<double>(counted); }
  // "generated_exact", as a metric of the task.
  Metric metric(const BeamConfig& search) const;
};

// Of the first `limit` examples of a split, or as many as it has.
AnswerTally evaluate_answers(Model& model, Task& task, Split split, std::size_t limit,
                             const BeamConfig& search);

}  // namespace longspan
