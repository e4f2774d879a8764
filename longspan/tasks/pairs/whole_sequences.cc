#include "longspan/tasks/pairs/whole_sequences.h"

#include <fmt/core.h>

#include <algorithm>

namespace longspan {

void add_perfect(const Batch& batch, ConstMatrix scores, Tally& tally) {
  for (std::size_t b = 0; b < batch.batch; ++b) {
    bool perfect = true;
    for (std::size_t row = b * batch.length; row < (b + 1) * batch.length; ++row) {
      if (batch.targets[row] == kIgnoredTarget) continue;
      const auto values = scores.row(row);
      const auto likeliest = std::ranges::max_element(values) - values.begin();
      perfect = perfect && likeliest == batch.targets[row];
    }
    tally.perfect += perfect ? 1 : 0;
  }
}

Judgement judge_sequences(Split split, const Tally& tally) {
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

}  // namespace longspan
