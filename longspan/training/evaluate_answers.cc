#include "longspan/training/evaluate_answers.h"

#include <fmt/core.h>

#include <algorithm>

#include "longspan/base/error.h"

namespace longspan {

namespace {

std::vector<std::int32_t> source_of(const Batch& one) {
  const std::size_t length = one.source_lengths.empty()
                                 ? one.source_length
                                 : static_cast<std::size_t>(one.source_lengths[0]);
  const auto tokens = one.source.first(length);
  return {tokens.begin(), tokens.end()};
}

// What stands before the boundary.
std::vector<std::int32_t> answer_of(const Batch& one, std::int32_t boundary) {
  std::vector<std::int32_t> tokens;
  for (const std::int32_t t : one.targets) {
    if (t != kIgnoredTarget && t != boundary) tokens.push_back(t);
  }
  return tokens;
}

}  // namespace

Metric AnswerTally::metric(const BeamConfig& search) const {
  const std::string how =
      search.beams == 1 ? "greedily" : fmt::format("with {} beams", search.beams);
  return {"generated_exact", share(),
          fmt::format("{:.2f} % of {} written {}", 100.0 * share(), counted, how)};
}

AnswerTally evaluate_answers(Model& model, Task& task, Split split, std::size_t limit,
                             const BeamConfig& search) {
  require(model.config().family == Family::kEncoderDecoder && task.boundary() >= 0,
          "[eval] the task {} has no answers to write; need one from a source to a target",
          task.name());
  const std::size_t count = std::min(limit, task.examples(split));
  require(count > 0, "[eval] no examples of the split {} to answer; need at least 1",
          name_of(split));
  task.arrange(split, count);
  BeamSearch beams(model, search);
  BatchMemory memory;
  AnswerTally tally;
  for (std::size_t i = 0; i < count; ++i) {
    const Batch one = task.batch(split, {.first = i, .count = 1}, memory);
    // No target is longer; with the boundary behind it.
    const FoundText found = beams.find(source_of(one), task.boundary(), task.needs().length);
    ++tally.counted;
    tally.exact += found.ended && found.tokens == answer_of(one, task.boundary()) ? 1 : 0;
  }
  return tally;
}

}  // namespace longspan
