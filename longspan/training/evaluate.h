// How good a model is at a task: its loss and metrics over the examples of a split.
#pragma once

#include <functional>
#include <stdexcept>

#include "longspan/models/model.h"
#include "longspan/tasks/task.h"

namespace longspan {

struct EvaluateOptions {
  std::size_t batch = 12;  // examples at a time
  std::size_t limit = 0;   // examples at most; 0: all
  // Tokens before it that each sequence remembers. The split is then read as `batch` streams side
  // by side, whose first sequences remember nothing; what does not fill all streams is left out.
  std::size_t history = 0;
  std::function<bool()> stops = {};  // asked before every batch; then EvaluationStopped is thrown
  // Sees every batch with the model's scores of it; `first` is the place of its first example.
  std::function<void(const Batch& batch, ConstMatrix scores, std::size_t first)> sees = {};
};

struct EvaluationStopped : std::runtime_error {
  EvaluationStopped() : std::runtime_error("the evaluation was stopped") {}
};

Judgement evaluate(Model& model, Task& task, Split split, const EvaluateOptions& options);

}  // namespace longspan
