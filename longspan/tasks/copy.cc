#include "longspan/tasks/copy.h"

#include <fmt/core.h>

#include <algorithm>

#include "longspan/base/error.h"
#include "longspan/tasks/symbols.h"
#include "longspan/tasks/task_options.h"

namespace longspan {

CopyTask::CopyTask(const Config& config) : config_(config) {
  require(config.length >= 4 && config.length % 2 == 0,
          "[copy] length {}; need an even number of at least 4", config.length);
  require(config.symbols > 0 && config.held_out > 0,
          "[copy] {} symbols and {} held-out sequences; need at least 1 of each", config.symbols,
          config.held_out);
}

TaskOptions CopyTask::options() const { return options_of(config_); }

std::string CopyTask::describe() const {
  return fmt::format("0w0w of {} tokens, w of {} symbols", config_.length, config_.symbols);
}

std::size_t CopyTask::examples(Split split) const {
  switch (split) {
    case Split::kTraining:
    case Split::kValidation:
      return config_.held_out;
    case Split::kTest:
    case Split::kAll:
      return 0;
  }
  return 0;
}

Batch CopyTask::room(std::size_t rows, BatchMemory& memory) const {
  memory.tokens.resize(rows * config_.length);
  memory.targets.resize(rows * config_.length);
  return {
      .batch = rows, .length = config_.length, .tokens = memory.tokens, .targets = memory.targets};
}

void CopyTask::fill(RandomKey key, std::uint64_t index, std::size_t row,
                    BatchMemory& memory) const {
  const std::size_t n = config_.length;
  const std::size_t half = n / 2;
  const std::span<std::int32_t> tokens = std::span(memory.tokens).subspan(row * n, n);
  const std::span<std::int32_t> s = std::span(memory.targets).subspan(row * n, n);
  s[0] = 0;
  draw_symbols(key, index, config_.symbols, s.subspan(1, half - 1));
  std::ranges::copy(s.first(half), s.begin() + static_cast<std::ptrdiff_t>(half));
  tokens[0] = 0;
  std::ranges::copy(s.first(n - 1), tokens.begin() + 1);
  std::ranges::fill(s.first(half), kIgnoredTarget);
}

Batch CopyTask::training_batch(std::uint64_t seed, std::uint64_t step, std::size_t rows,
                               BatchMemory& memory) {
  const Batch batch = room(rows, memory);
  const RandomKey key = derive(derive(RandomKey{seed}, kName), step);
  for (std::size_t row = 0; row < rows; ++row) fill(key, row, row, memory);
  return batch;
}

Batch CopyTask::batch(Split split, const Examples& which, BatchMemory& memory) {
  const Batch batch = room(which.count, memory);
  const RandomKey key = derive(derive(0, kName), name_of(split));
  for (std::size_t row = 0; row < which.count; ++row) {
    fill(key, which.first + row * which.stride, row, memory);
  }
  return batch;
}

Judgement CopyTask::judge(Split split, const Tally& tally) const {
  const std::string loss = fmt::format("{:.4f}", tally.mean_loss());
  const std::string accuracy = fmt::format("{:.2f} %", 100.0 * tally.accuracy());
  return {.split = split,
          .counted = "tokens",
          .count = tally.counted,
          .metrics = {{"loss", tally.mean_loss(), loss + " nats per token of the second half"},
                      {"accuracy", tally.accuracy(), accuracy}},
          .subject = fmt::format("{} {} sequences", tally.sequences, name_of(split)),
          .line = fmt::format("loss {}, accuracy {}", loss, accuracy)};
}

std::vector<std::int32_t> CopyTask::encode(std::string_view prompt) const {
  std::vector<std::int32_t> tokens = read_symbols(kName, prompt, config_.symbols);
  tokens.insert(tokens.begin(), 2, 0);
  tokens.push_back(0);
  return tokens;
}

std::string CopyTask::decode(std::span<const std::int32_t> tokens) const {
  return write_symbols(tokens);
}

}  // namespace longspan
