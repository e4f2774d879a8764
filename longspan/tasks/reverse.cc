#include "longspan/tasks/reverse.h"

#include <fmt/core.h>

#include <algorithm>

#include "longspan/base/error.h"
#include "longspan/tasks/symbols.h"
#include "longspan/tasks/task_options.h"

namespace longspan {

ReverseTask::ReverseTask(const Config& config) : config_(config) {
  require(config.length > 0 && config.symbols > 0 && config.held_out > 0,
          "[reverse] length {}, {} symbols and {} held-out sequences; need at least 1 of each",
          config.length, config.symbols, config.held_out);
}

TaskOptions ReverseTask::options() const { return options_of(config_); }

std::string ReverseTask::describe() const {
  return fmt::format("{} of {} symbols, backwards", config_.length, config_.symbols);
}

std::size_t ReverseTask::examples(Split split) const {
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

Batch ReverseTask::room(std::size_t rows, BatchMemory& memory) const {
  const std::size_t n = config_.length;
  memory.source.resize(rows * n);
  memory.tokens.resize(rows * (n + 1));
  memory.targets.resize(rows * (n + 1));
  return {.batch = rows,
          .length = n + 1,
          .tokens = memory.tokens,
          .targets = memory.targets,
          .source_length = n,
          .source = memory.source};
}

void ReverseTask::fill(RandomKey key, std::uint64_t index, std::size_t row,
                       BatchMemory& memory) const {
  const std::size_t n = config_.length;
  const std::span<std::int32_t> x = std::span(memory.source).subspan(row * n, n);
  const std::span<std::int32_t> tokens = std::span(memory.tokens).subspan(row * (n + 1), n + 1);
  const std::span<std::int32_t> targets = std::span(memory.targets).subspan(row * (n + 1), n + 1);
  draw_symbols(key, index, config_.symbols, x);
  std::ranges::reverse_copy(x, targets.begin());
  targets[n] = boundary();
  tokens[0] = boundary();
  std::ranges::copy(targets.first(n), tokens.begin() + 1);
}

Batch ReverseTask::training_batch(std::uint64_t seed, std::uint64_t step, std::size_t rows,
                                  BatchMemory& memory) {
  const Batch batch = room(rows, memory);
  const RandomKey key = derive(derive(RandomKey{seed}, kName), step);
  for (std::size_t row = 0; row < rows; ++row) fill(key, row, row, memory);
  return batch;
}

Batch ReverseTask::batch(Split split, const Examples& which, BatchMemory& memory) {
  const Batch batch = room(which.count, memory);
  const RandomKey key = derive(derive(0, kName), name_of(split));
  for (std::size_t row = 0; row < which.count; ++row) {
    fill(key, which.first + row * which.stride, row, memory);
  }
  return batch;
}

void ReverseTask::add(const Batch& batch, ConstMatrix scores, Tally& tally) const {
  for (std::size_t b = 0; b < batch.batch; ++b) {
    bool perfect = true;
    for (std::size_t row = b * batch.length; row < (b + 1) * batch.length; ++row) {
      const auto values = scores.row(row);
      const auto likeliest = std::ranges::max_element(values) - values.begin();
      perfect = perfect && likeliest == batch.targets[row];
    }
    tally.perfect += perfect ? 1 : 0;
  }
}

Judgement ReverseTask::judge(Split split, const Tally& tally) const {
  const double whole = static_cast<double>(tally.perfect) /
                       static_cast<double>(std::max<std::size_t>(1, tally.sequences));
  const std::string loss = fmt::format("{:.4f}", tally.mean_loss());
  const std::string tokens = fmt::format("{:.2f} %", 100.0 * tally.accuracy());
  const std::string sequences = fmt::format("{:.2f} %", 100.0 * whole);
  return {.split = split,
          .counted = "sequences",
          .count = tally.sequences,
          .metrics = {{"loss", tally.mean_loss(), loss + " nats per token"},
                      {"accuracy", tally.accuracy(), tokens + " of the tokens"},
                      {"sequence_accuracy", whole, sequences}},
          .subject = fmt::format("{} {} sequences", tally.sequences, name_of(split)),
          .line = fmt::format("loss {}, accuracy {} of tokens, {} of sequences", loss, tokens,
                              sequences)};
}

std::vector<std::int32_t> ReverseTask::encode(std::string_view prompt) const {
  std::vector<std::int32_t> tokens = read_symbols(kName, prompt, config_.symbols);
  require(tokens.size() <= config_.length, "[reverse] {} symbols; the model reads at most {}",
          tokens.size(), config_.length);
  return tokens;
}

std::string ReverseTask::decode(std::span<const std::int32_t> tokens) const {
  return write_symbols(tokens);
}

}  // namespace longspan
