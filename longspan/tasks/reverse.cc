#include "longspan/tasks/reverse.h"

#include <fmt/core.h>

#include <algorithm>

#include "longspan/base/error.h"
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
  std::vector<std::int32_t> tokens = read_symbols(kName, prompt, config().symbols);
  require(tokens.size() <= config().length, "[reverse] {} symbols; the model reads at most {}",
          tokens.size(), config().length);
  return tokens;
}

}  // namespace longspan
