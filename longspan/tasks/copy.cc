#include "longspan/tasks/copy.h"

#include <fmt/core.h>

#include <algorithm>

#include "longspan/base/error.h"
#include "longspan/tasks/symbols.h"

namespace longspan {

CopyTask::CopyTask(const SymbolConfig& config) : SymbolTask(kName, config) {
  require(config.length >= 4 && config.length % 2 == 0,
          "[copy] length {}; need an even number of at least 4", config.length);
}

std::string CopyTask::describe() const {
  return fmt::format("0w0w of {} tokens, w of {} symbols", config().length, config().symbols);
}

Batch CopyTask::room(std::size_t rows, BatchMemory& memory) const {
  memory.tokens.resize(rows * config().length);
  memory.targets.resize(rows * config().length);
  return {
      .batch = rows, .length = config().length, .tokens = memory.tokens, .targets = memory.targets};
}

void CopyTask::fill(RandomKey key, std::uint64_t index, std::size_t row,
                    BatchMemory& memory) const {
  const std::size_t n = config().length;
  const std::size_t half = n / 2;
  const std::span<std::int32_t> tokens = std::span(memory.tokens).subspan(row * n, n);
  const std::span<std::int32_t> s = std::span(memory.targets).subspan(row * n, n);
  s[0] = 0;
  draw_symbols(key, index, config().symbols, s.subspan(1, half - 1));
  std::ranges::copy(s.first(half), s.begin() + static_cast<std::ptrdiff_t>(half));
  tokens[0] = 0;
  std::ranges::copy(s.first(n - 1), tokens.begin() + 1);
  std::ranges::fill(s.first(half), kIgnoredTarget);
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
  std::vector<std::int32_t> tokens = read_symbols(kName, prompt, config().symbols);
  tokens.insert(tokens.begin(), 2, 0);
  tokens.push_back(0);
  return tokens;
}

}  // namespace longspan
