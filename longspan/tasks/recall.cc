#include "longspan/tasks/recall.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "longspan/base/error.h"
#include "longspan/tasks/task_options.h"

namespace longspan {

namespace {

constexpr double kPower = 0.01;  // a of the slots' weights

// Of the published protocol (Arora et al. 2024, figure 2).
constexpr std::size_t kPublishedSymbols = 8192;
constexpr std::array<RecallKind, 5> kPublishedTraining = {
    {{64, 4, 100000}, {128, 8, 20000}, {256, 16, 20000}, {256, 32, 20000}, {256, 64, 20000}}};
constexpr std::array<RecallKind, 7> kPublishedJudging = {
    {{64, 4}, {64, 8}, {64, 16}, {128, 32}, {256, 64}, {512, 128}, {1024, 256}}};

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
  if (config_.protocol == RecallProtocol::kZoology) {
    config_.symbols = kPublishedSymbols;
    training_.assign(kPublishedTraining.begin(), kPublishedTraining.end());
    judging_.assign(kPublishedJudging.begin(), kPublishedJudging.end());
    for (RecallKind& kind : judging_) kind.examples = config_.held_out;
    config_.length = training_.back().length;
    config_.pairs = training_.back().pairs;
    return;
  }
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

std::string_view RecallTask::idle(std::string_view option) const {
  const bool published = config_.protocol == RecallProtocol::kZoology;
  const bool fixed = option == "length" || option == "pairs" || option == "symbols";
  return published && fixed ? "the protocol zoology, which has its own; need quick" : "";
}

Protocol RecallTask::protocol() const {
  Protocol p{.heads = 1,
             .positions = PositionKind::kNone,
             .before = "conv:width=2",
             .steps = 300,
             .batch = 64,
             .learning_rate = 3e-3};
  if (config_.protocol == RecallProtocol::kQuick) return p;
  p.before = "conv:width=3";
  p.batch = 256;
  p.steps = 32 * examples(Split::kTraining) / p.batch;  // passes as published
  return p;
}

std::string RecallTask::describe() const {
  if (config_.protocol == RecallProtocol::kZoology) {
    return fmt::format("{} sequences of {} kinds, {} to {} tokens of {} symbols",
                       examples(Split::kTraining), training_.size(), training_.front().length,
                       training_.back().length, config_.symbols);
  }
  return fmt::format("{} pairs in {} tokens of {} symbols", config_.pairs, config_.length,
                     config_.symbols);
}

ModelNeeds RecallTask::needs() const {
  return {.vocabulary = config_.symbols,
          .length = config_.length,
          .judged_length = judging_.empty() ? 0 : judging_.back().length};
}

std::span<const RecallKind> RecallTask::kinds(Split split) const {
  if (split == Split::kTraining) return training_;
  return split == Split::kValidation ? std::span<const RecallKind>(judging_)
                                     : std::span<const RecallKind>();
}

std::size_t RecallTask::examples(Split split) const {
  if (endless()) return DrawnTask::examples(split);
  std::size_t count = 0;
  for (const RecallKind& kind : kinds(split)) count += kind.examples;
  return count;
}

// Those that judge take turns, so that the first so many have all kinds.
RecallTask::Place RecallTask::place(Split split, std::size_t number) const {
  if (split == Split::kValidation) return {number % judging_.size(), number / judging_.size()};
  std::size_t kind = 0;
  while (number >= training_[kind].examples) number -= training_[kind++].examples;
  return {kind, number};
}

void RecallTask::order_pass(RandomKey key, std::size_t rows) {
  if (pass_ == key && pass_rows_ == rows && !batches_.empty()) return;
  std::size_t count = 0;
  orders_.clear();
  for (std::size_t k = 0; k < training_.size(); ++k) {
    const std::size_t examples = training_[k].examples;
    const auto order = different(derive(key, k), examples, examples);
    orders_.emplace_back(order.begin(), order.end());
    count += std::max<std::size_t>(1, examples / rows);
  }
  const auto order = different(derive(key, "batches"), count, count);
  batches_.assign(order.begin(), order.end());
  pass_ = key;
  pass_rows_ = rows;
}

Batch RecallTask::training_batch(std::uint64_t seed, std::uint64_t step, std::size_t rows,
                                 BatchMemory& memory) {
  if (endless()) return DrawnTask::training_batch(seed, step, rows, memory);
  std::size_t in_pass = 0;
  const auto batches = [&](const RecallKind& kind) {
    return std::max<std::size_t>(1, kind.examples / rows);
  };
  for (const RecallKind& kind : training_) in_pass += batches(kind);
  order_pass(derive(derive(RandomKey{seed}, kName), step / in_pass), rows);
  std::size_t number = batches_[step % in_pass];
  std::size_t k = 0;
  while (number >= batches(training_[k])) number -= batches(training_[k++]);
  places_.clear();
  for (std::size_t row = 0; row < rows; ++row) {
    places_.push_back({k, orders_[k][(number * rows + row) % orders_[k].size()]});
  }
  return draw(Split::kTraining, places_, memory);
}

void RecallTask::arrange(Split split, std::size_t count) {
  if (endless()) return;
  arranged_split_ = split;
  arranged_.resize(count);
  std::iota(arranged_.begin(), arranged_.end(), std::size_t{0});
  std::ranges::stable_sort(arranged_, {}, [&](std::size_t i) { return place(split, i).kind; });
}

Batch RecallTask::batch(Split split, const Examples& which, BatchMemory& memory) {
  if (endless()) return DrawnTask::batch(split, which, memory);
  const bool sorted = split == arranged_split_ && !arranged_.empty();
  places_.clear();
  for (std::size_t i = 0; i < which.count; ++i) {
    const std::size_t at = which.first + i * which.stride;
    places_.push_back(place(split, sorted ? arranged_[at] : at));
  }
  return draw(split, places_, memory);
}

Batch RecallTask::draw(Split split, std::span<const Place> places, BatchMemory& memory) const {
  const auto kind = [&](const Place& p) -> const RecallKind& { return kinds(split)[p.kind]; };
  std::size_t n = 0;
  for (const Place& p : places) n = std::max(n, kind(p).length);
  const std::size_t rows = places.size();
  memory.tokens.assign(rows * n, 0);
  memory.targets.assign(rows * n, kIgnoredTarget);
  memory.lengths.resize(rows);
  bool padded = false;
  const RandomKey key = derive(derive(0, kName), name_of(split));
  for (std::size_t row = 0; row < rows; ++row) {
    const Place& p = places[row];
    const std::size_t length = kind(p).length;
    memory.lengths[row] = static_cast<std::int32_t>(length);
    padded = padded || length < n;
    draw_row(derive(derive(key, p.kind), p.index), kind(p),
             std::span(memory.tokens).subspan(row * n, length),
             std::span(memory.targets).subspan(row * n, length));
  }
  Batch batch{.batch = rows, .length = n, .tokens = memory.tokens, .targets = memory.targets};
  if (padded) batch.lengths = memory.lengths;
  return batch;
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
  draw_row(derive(key, index), {n, config_.pairs}, std::span(memory.tokens).subspan(row * n, n),
           std::span(memory.targets).subspan(row * n, n));
}

void RecallTask::draw_row(RandomKey own, const RecallKind& kind, std::span<std::int32_t> tokens,
                          std::span<std::int32_t> targets) const {
  const std::size_t pairs = kind.pairs;
  const std::size_t half = config_.symbols / 2;
  const std::vector<std::int32_t> keys = different(derive(own, "keys"), pairs, half - 1);
  const std::vector<std::int32_t> values = different(derive(own, "values"), pairs, half);
  const std::vector<std::size_t> slots =
      draw_slots(derive(own, "slots"), pairs, (kind.length - 2 * pairs) / 2);
  const RandomKey others = derive(own, "others");
  for (std::size_t i = 0; i < tokens.size(); ++i) {
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

// By how many pairs a sequence has; no two kinds that judge have as many.
void RecallTask::add(const Batch& batch, ConstMatrix scores, Tally& tally) const {
  if (endless()) return;
  tally.by_class.resize(judging_.size());
  for (std::size_t row = 0; row < batch.batch; ++row) {
    const auto targets = batch.targets.subspan(row * batch.length, batch.length);
    const auto ignored = static_cast<std::size_t>(std::ranges::count(targets, kIgnoredTarget));
    const std::size_t pairs = targets.size() - ignored;
    const auto kind = std::ranges::find(judging_, pairs, &RecallKind::pairs);
    if (kind == judging_.end()) continue;
    ClassTally& own = tally.by_class[static_cast<std::size_t>(kind - judging_.begin())];
    for (std::size_t i = 0; i < targets.size(); ++i) {
      if (targets[i] == kIgnoredTarget) continue;
      const auto values = scores.row(row * batch.length + i);
      ++own.counted;
      own.correct += std::ranges::max_element(values) - values.begin() == targets[i] ? 1 : 0;
    }
  }
}

Judgement RecallTask::judge(Split split, const Tally& tally) const {
  const std::string loss = fmt::format("{:.4f}", tally.mean_loss());
  const std::string accuracy = fmt::format("{:.2f} %", 100.0 * tally.accuracy());
  Judgement q{.split = split,
              .counted = "queries",
              .count = tally.counted,
              .metrics = {{"loss", tally.mean_loss(), loss + " nats per query"},
                          {"accuracy", tally.accuracy(), accuracy + " of the values"}},
              .subject = fmt::format("{} {} sequences", tally.sequences, name_of(split)),
              .line = fmt::format("loss {}, accuracy {}", loss, accuracy)};
  if (split != Split::kValidation) return q;
  for (std::size_t k = 0; k < tally.by_class.size(); ++k) {
    const ClassTally& own = tally.by_class[k];
    if (own.counted == 0) continue;
    const double right = static_cast<double>(own.correct) / static_cast<double>(own.counted);
    q.metrics.push_back({fmt::format("accuracy_of_{}_pairs", judging_[k].pairs), right,
                         fmt::format("{:.2f} % in {} tokens", 100.0 * right, judging_[k].length)});
  }
  return q;
}

}  // namespace longspan
