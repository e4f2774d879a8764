// A trained model that another one learns from, or is compared with: it says of every batch what it
// would answer, and a loss (layers/distillation.h) compares the student's outputs with that.
#pragma once

#include <filesystem>
#include <vector>

#include "longspan/tasks/task.h"
#include "longspan/training/run_directory.h"

namespace longspan {

class Teacher {
 public:
  // Loads a run; throws Error, in one sentence, unless it does the student's task with the student's
  // vocabulary and, where the student's loss reads hidden states, has them as wide.
  Teacher(const std::filesystem::path& directory, const RunConfig& student);

  // Runs on the batch, which from then on has what it said, in `memory`.
  void teach(Batch& batch, BatchMemory& memory);

  const LoadedRun& run() const { return run_; }
  // Of a forward pass.
  Work work(const Batch& shape) const;
  std::size_t activation_bytes(const Batch& shape) const {
    return run_.model->inference_bytes(shape);
  }

 private:
  LoadedRun run_;
  bool shows_states_ = false;
};

// How close a model is to its teacher on examples that neither learned from.
//
//   KL(p ‖ q) = Σ p·log(p/q), p the teacher's distribution and q the model's, mean over the targets
//   that count; and the share of those where both have the same likeliest class
struct Closeness {
  double divergence = 0.0;  // the sum
  std::size_t agreed = 0;
  std::size_t counted = 0;

  // `scores` are the model's of a batch that the teacher has seen.
  void add(const Batch& batch, ConstMatrix scores);
  // "teacher_kl" and "teacher_agreement".
  std::vector<Metric> metrics() const;
};

}  // namespace longspan
