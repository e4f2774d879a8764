#include "longspan/tasks/masked_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "longspan/base/error.h"

namespace longspan {

namespace {

constexpr float kChosen = 0.15F;
constexpr float kHidden = 0.8F;   // of the chosen
constexpr float kChanged = 0.9F;  // hidden or another

}  // namespace

void MaskedTextTask::open() {
  TextTask::open();
  // Every token once more than it is there: one that is never there is no infinite surprise.
  const std::vector<std::size_t> counts = corpus().training_counts();
  double all = 0.0;
  for (const std::size_t n : counts) all += static_cast<double>(n + 1);
  surprise_.clear();
  for (const std::size_t n : counts) {
    surprise_.push_back(std::log(all) - std::log(static_cast<double>(n + 1)));
  }
}

ModelNeeds MaskedTextTask::needs() const {
  ModelNeeds needs = TextTask::needs();
  needs.family = Family::kEncoder;
  needs.vocabulary += added_tokens();
  return needs;
}

void MaskedTextTask::hide(RandomKey key, std::size_t row, BatchMemory& memory) const {
  const std::size_t n = length();
  const std::size_t symbols = vocabulary()->size();
  const std::span<std::int32_t> tokens = std::span(memory.tokens).subspan(row * n, n);
  const std::span<std::int32_t> targets = std::span(memory.targets).subspan(row * n, n);
  const RandomKey choose = derive(key, "chosen");
  const RandomKey change = derive(key, "changed");
  const RandomKey other = derive(key, "other");
  // A window without a target would teach nothing.
  const std::size_t always = random_below(derive(key, "always"), 0, n);
  bool any = false;
  for (std::size_t i = 0; i < n; ++i) any = any || random_uniform(choose, i) < kChosen;
  for (std::size_t i = 0; i < n; ++i) {
    const bool chosen = any ? random_uniform(choose, i) < kChosen : i == always;
    targets[i] = chosen ? tokens[i] : kIgnoredTarget;
    if (!chosen) continue;
    const float way = random_uniform(change, i);
    if (way < kHidden) {
      tokens[i] = static_cast<std::int32_t>(symbols);
    } else if (way < kChanged) {
      tokens[i] = static_cast<std::int32_t>(random_below(other, i, symbols));
    }
  }
}

Batch MaskedTextTask::training_batch(std::uint64_t seed, std::uint64_t step, std::size_t rows,
                                     BatchMemory& memory) {
  const Batch batch = TextTask::training_batch(seed, step, rows, memory);
  const RandomKey key = derive(derive(RandomKey{seed}, kName), step);
  for (std::size_t row = 0; row < rows; ++row) hide(derive(key, row), row, memory);
  return batch;
}

Batch MaskedTextTask::batch(Split split, const Examples& which, BatchMemory& memory) {
  const Batch batch = TextTask::batch(split, which, memory);
  const RandomKey key = derive(derive(0, kName), name_of(split));
  for (std::size_t row = 0; row < which.count; ++row) {
    hide(derive(key, which.first + row * which.stride), row, memory);
  }
  return batch;
}

void MaskedTextTask::add(const Batch& batch, ConstMatrix /*scores*/, Tally& tally) const {
  for (const std::int32_t target : batch.targets) {
    if (target != kIgnoredTarget) tally.guess += surprise_[static_cast<std::size_t>(target)];
  }
}

Judgement MaskedTextTask::judge(Split split, const Tally& tally) const {
  const double loss = tally.mean_loss();
  const double guess = tally.guess / static_cast<double>(tally.counted);
  const std::string accuracy = fmt::format("{:.2f} %", 100.0 * tally.accuracy());
  return {.split = split,
          .counted = "tokens",
          .count = tally.counted,
          .metrics = {{"loss", loss, fmt::format("{:.4f} nats per hidden token", loss)},
                      {"perplexity", std::exp(loss),
                       fmt::format("{:.3f} (guessing by frequency: {:.3f})", std::exp(loss),
                                   std::exp(guess))},
                      {"accuracy", tally.accuracy(), accuracy},
                      {"unigram_loss", guess, ""}},
          .subject = fmt::format("{} of {}, {} hidden tokens", name_of(split), options().at("data"),
                                 tally.counted),
          .line = fmt::format("loss {:.4f}, perplexity {:.2f}, accuracy {}", loss, std::exp(loss),
                              accuracy)};
}

}  // namespace longspan
