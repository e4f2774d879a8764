#include "longspan/tasks/reverse.h"

#include <fmt/core.h>

#include <algorithm>

#include "longspan/base/error.h"
#include "longspan/tasks/pairs/whole_sequences.h"
#include "longspan/tasks/symbols.h"

namespace longspan {

ReverseTask::ReverseTask(const SymbolConfig& config) : SymbolTask(kName, config) {}

std::string ReverseTask::describe() const {
  return fmt::format("{} of {} symbols, backwards", config().length, config().symbols);
}

Batch ReverseTask::room(std::size_t rows, BatchMemory& memory) const {
  const std::size_t n = config().length;
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
  const std::size_t n = config().length;
  const std::span<std::int32_t> x = std::span(memory.source).subspan(row * n, n);
  const std::span<std::int32_t> tokens = std::span(memory.tokens).subspan(row * (n + 1), n + 1);
  const std::span<std::int32_t> targets = std::span(memory.targets).subspan(row * (n + 1), n + 1);
  draw_symbols(key, index, config().symbols, x);
  std::ranges::reverse_copy(x, targets.begin());
  targets[n] = boundary();
  tokens[0] = boundary();
  std::ranges::copy(targets.first(n), tokens.begin() + 1);
}

void ReverseTask::add(const Batch& batch, ConstMatrix scores, Tally& tally) const {
  add_perfect(batch, scores, tally);
}

Judgement ReverseTask::judge(Split split, const Tally& tally) const {
  return judge_sequences(split, tally);
}

std::vector<std::int32_t> ReverseTask::encode(std::string_view prompt) const {
  std::vector<std::int32_t> tokens = read_symbols(kName, prompt, config().symbols);
  require(tokens.size() <= config().length, "[reverse] {} symbols; the model reads at most {}",
          tokens.size(), config().length);
  return tokens;
}

}  // namespace longspan
