#include "longspan/training/pseudo_perplexity.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "longspan/base/error.h"

namespace longspan {

namespace {

// The window as it stands in the text: what was hidden in it is its target.
std::vector<std::int32_t> unhidden(const Batch& window) {
  std::vector<std::int32_t> tokens(window.tokens.begin(), window.tokens.end());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (window.targets[i] != kIgnoredTarget) tokens[i] = window.targets[i];
  }
  return tokens;
}

// Copies of the window, in copy r of which the token first + r is hidden.
Batch hidden_alone(const std::vector<std::int32_t>& window, std::size_t first, std::size_t copies,
                   std::int32_t hidden, BatchMemory& memory) {
  const std::size_t n = window.size();
  memory.tokens.resize(copies * n);
  memory.targets.assign(copies * n, kIgnoredTarget);
  for (std::size_t r = 0; r < copies; ++r) {
    std::ranges::copy(window, memory.tokens.begin() + static_cast<std::ptrdiff_t>(r * n));
    const std::size_t at = r * n + first + r;
    memory.targets[at] = memory.tokens[at];
    memory.tokens[at] = hidden;
  }
  return {.batch = copies, .length = n, .tokens = memory.tokens, .targets = memory.targets};
}

}  // namespace

Metric PseudoTally::metric() const {
  const double perplexity = std::exp(mean_loss());
  return {"pseudo_perplexity", perplexity,
          fmt::format("{:.3f} of {} tokens, each hidden alone", perplexity, counted)};
}

PseudoTally evaluate_pseudo(Model& model, Task& task, Split split, std::size_t windows,
                            std::size_t rows) {
  require(task.hides() && task.vocabulary() != nullptr,
          "[eval] the task {} hides no tokens; need one that does", task.name());
  require(rows > 0, "[eval] batches of 0 sequences; need at least 1");
  const std::size_t count = std::min(windows, task.examples(split));
  require(count > 0, "[eval] no windows of the split {} to hide tokens of; need at least 1",
          name_of(split));
  const auto hidden = static_cast<std::int32_t>(task.vocabulary()->size());
  BatchMemory memory;
  PseudoTally tally;
  for (std::size_t w = 0; w < count; ++w) {
    const auto window = unhidden(task.batch(split, {.first = w, .count = 1}, memory));
    for (std::size_t first = 0; first < window.size(); first += rows) {
      const std::size_t copies = std::min(rows, window.size() - first);
      const LossSum sum = model.evaluate(hidden_alone(window, first, copies, hidden, memory));
      tally.loss += sum.loss;
      tally.counted += sum.counted;
      tally.correct += sum.correct;
    }
  }
  return tally;
}

}  // namespace longspan
