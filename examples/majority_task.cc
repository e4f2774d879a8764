#include "examples/majority_task.h"

#include <fmt/core.h>

#include <limits>

#include "longspan/base/error.h"
#include "longspan/base/random.h"
#include "longspan/tasks/task_options.h"

namespace longspan {

MajorityTask::MajorityTask(const MajorityConfig& config) : config_(config) {
  require(config.length % 2 == 1, "[majority] length {}; need an odd number, so that one wins",
          config.length);
}

TaskOptions MajorityTask::options() const { return options_of(config_); }

std::string MajorityTask::describe() const {
  return fmt::format("the more frequent of two symbols among {}", config_.length);
}

std::size_t MajorityTask::examples(Split split) const {
  if (split == Split::kTraining) return std::numeric_limits<std::uint32_t>::max();
  return split == Split::kValidation ? config_.held_out : 0;
}

Batch MajorityTask::training_batch(std::uint64_t seed, std::uint64_t step, std::size_t rows,
                                   BatchMemory& memory) {
  return fill(derive(seed, "majority"), {.first = step * rows, .count = rows}, memory);
}

Batch MajorityTask::batch(Split split, const Examples& which, BatchMemory& memory) {
  return fill(derive(RandomKey{1}, name_of(split)), which, memory);
}

Batch MajorityTask::fill(std::uint64_t seed, const Examples& which, BatchMemory& memory) const {
  memory.tokens.resize(which.count * config_.length);
  memory.targets.resize(which.count);
  for (std::size_t row = 0; row < which.count; ++row) {
    const RandomKey key = derive(seed, which.first + row * which.stride);
    const float likely = random_uniform(key, 0);
    std::size_t ones = 0;
    for (std::size_t i = 0; i < config_.length; ++i) {
      const bool one = random_uniform(key, i + 1) < likely;
      memory.tokens[row * config_.length + i] = one ? 1 : 0;
      ones += one ? 1 : 0;
    }
    memory.targets[row] = 2 * ones > config_.length ? 1 : 0;
  }
  return {.batch = which.count,
          .length = config_.length,
          .tokens = memory.tokens,
          .targets = memory.targets};
}

Judgement MajorityTask::judge(Split split, const Tally& tally) const {
  const std::string accuracy = fmt::format("{:.2f} %", 100.0 * tally.accuracy());
  return {.split = split,
          .counted = "sequences",
          .count = tally.counted,
          .metrics = {{"loss", tally.mean_loss(), fmt::format("{:.4f}", tally.mean_loss())},
                      {"accuracy", tally.accuracy(), accuracy}},
          .subject = fmt::format("{} {} sequences", tally.sequences, name_of(split)),
          .line = fmt::format("loss {:.4f}, accuracy {}", tally.mean_loss(), accuracy)};
}

}  // namespace longspan
