#include "longspan/tasks/recall.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "longspan/base/error.h"
#include "longspan/tasks/task_options.h"

namespace longspan {

namespace {

constexpr double kPower = 0.01;  // a of the slots' weights

// `count` different numbers of 0 … bound − 1, in random order.
std::vector<std::int32_t> different(RandomKey key, std::size_t count, std::size_t bound) {
  std::vector<std::int32_t> all(bound);
  std::iota(all.begin(), all.end(), 0);
  for (std::size_t i = 0; i < count; ++i) {
    std::swap(all[i], all[i + random_below(key, i, bound - i)]);
  }
  all.resize(count);
  return all;
}

// `count` of `slots` in the order in which they are drawn: an exponential of rate w is the first of
// all with probability w / Σw, and the next of what remains likewise.
std::vector<std::size_t> draw_slots(RandomKey key, std::size_t count, std::size_t slots) {
  std::vector<std::pair<double, std::size_t>> waits(slots);
  for (std::size_t i = 0; i < slots; ++i) {
    const double weight = kPower * std::pow(static_cast<double>(i + 1), kPower - 1.0);
    constexpr std::uint64_t kSteps = std::uint64_t{1} << 53U;
    const double uniform =
        (static_cast<double>(random_below(key, i, kSteps)) + 0.5) / static_cast<double>(kSteps);
    waits[i] = {-std::log(uniform) / weight, i};
  }
  std::ranges::partial_sort(waits, waits.begin() + static_cast<std::ptrdiff_t>(count));
  std::vector<std::size_t> drawn(count);
  for (std::size_t i = 0; i < count; ++i) drawn[i] = waits[i].second;
  return drawn;
}

}  // namespace

RecallTask::RecallTask(const Config& config) : config_(config) {
  check_numbers(kName, config_);
  require(config_.length % 2 == 0, "[recall] length {}; need an even number", config_.length);
  require(config_.symbols % 2 == 0, "[recall] {} symbols; need an even number", config_.symbols);
  require(4 * config_.pairs <= config_.length,
          "[recall] {} pairs in {} tokens; need at least {} tokens", config_.pairs, config_.length,
          4 * config_.pairs);
  require(config_.pairs < config_.symbols / 2,
          "[recall] {} pairs of {} symbols; need more than {} symbols", config_.pairs,
          config_.symbols, 2 * config_.pairs);
}

TaskOptions RecallTask::options() const { return options_of(config_); }

std::string RecallTask::describe() const {
  return fmt::format("{} pairs in {} tokens of {} symbols", config_.pairs, config_.length,
                     config_.symbols);
}

ModelNeeds RecallTask::needs() const {
  return {.vocabulary = config_.symbols, .length = config_.length};
}

Batch RecallTask::room(std::size_t rows, BatchMemory& memory) const {
  memory.tokens.resize(rows * config_.length);
  memory.targets.resize(rows * config_.length);
  return {
      .batch = rows, .length = config_.length, .tokens = memory.tokens, .targets = memory.targets};
}

void RecallTask::fill(RandomKey key, std::uint64_t index, std::size_t row,
                      BatchMemory& memory) const {
  const std::size_t n = config_.length;
  const std::size_t pairs = config_.pairs;
  const std::size_t half = config_.symbols / 2;
  const RandomKey own = derive(key, index);
  const std::vector<std::int32_t> keys = different(derive(own, "keys"), pairs, half - 1);
  const std::vector<std::int32_t> values = different(derive(own, "values"), pairs, half);
  const std::vector<std::size_t> slots =
      draw_slots(derive(own, "slots"), pairs, (n - 2 * pairs) / 2);
  const std::span<std::int32_t> tokens = std::span(memory.tokens).subspan(row * n, n);
  const std::span<std::int32_t> targets = std::span(memory.targets).subspan(row * n, n);
  const RandomKey others = derive(own, "others");
  for (std::size_t i = 0; i < n; ++i) {
    tokens[i] = static_cast<std::int32_t>(random_below(others, i, config_.symbols));
  }
  std::ranges::fill(targets, kIgnoredTarget);
  for (std::size_t p = 0; p < pairs; ++p) {
    const std::int32_t name = keys[p] + 1;
    const auto value = static_cast<std::int32_t>(half) + values[p];
    const std::size_t again = 2 * pairs + 2 * slots[p];
    tokens[2 * p] = tokens[again] = name;
    tokens[2 * p + 1] = targets[again] = value;
  }
}

Judgement RecallTask::judge(Split split, const Tally& tally) const {
  const std::string loss = fmt::format("{:.4f}", tally.mean_loss());
  const std::string accuracy = fmt::format("{:.2f} %", 100.0 * tally.accuracy());
  return {.split = split,
          .counted = "queries",
          .count = tally.counted,
          .metrics = {{"loss", tally.mean_loss(), loss + " nats per query"},
                      {"accuracy", tally.accuracy(), accuracy + " of the values"}},
          .subject = fmt::format("{} {} sequences", tally.sequences, name_of(split)),
          .line = fmt::format("loss {}, accuracy {}", loss, accuracy)};
}

}  // namespace longspan
