#include "longspan/tasks/text_task.h"

#include <fmt/core.h>

#include <cmath>
#include <numbers>

#include "longspan/io/checksum.h"
#include "longspan/io/file.h"
#include "longspan/tasks/task_options.h"

namespace longspan {

TaskOptions TextTask::options() const { return options_of(config_); }

void TextTask::open() {
  if (vocabulary_) {
    corpus_.emplace(config_.data, *vocabulary_);
  } else {
    corpus_.emplace(config_.data, config_.vocabulary);
    vocabulary_ = corpus_->vocabulary();
  }
}

std::string TextTask::checksum() const { return checksum_of(File(kName, config_.data)); }

std::string TextTask::describe() const {
  return fmt::format("{} tokens of {} kinds", corpus_->size(), vocabulary_->size());
}

ModelNeeds TextTask::needs() const {
  return {.vocabulary = vocabulary_->size(), .length = config_.length};
}

std::size_t TextTask::examples(Split split) const {
  corpus_->require_length(config_.length);
  switch (split) {
    case Split::kTraining:
      return (corpus_->training_size() - 1) / config_.length;
    case Split::kValidation:
      return corpus_->validation_windows(config_.length);
    case Split::kTest:
      return 0;
    case Split::kAll:
      return corpus_->windows(config_.length);
  }
  return 0;
}

TokenBatch TextTask::room(std::size_t rows, BatchMemory& memory) const {
  memory.tokens.resize(rows * config_.length);
  memory.targets.resize(rows * config_.length);
  return {config_.length, memory.tokens, memory.targets};
}

Batch TextTask::view(std::size_t rows, const BatchMemory& memory) const {
  return {
      .batch = rows, .length = config_.length, .tokens = memory.tokens, .targets = memory.targets};
}

Batch TextTask::training_batch(std::uint64_t seed, std::uint64_t step, std::size_t rows,
                               BatchMemory& memory) {
  corpus_->training_batch(seed, step, room(rows, memory));
  return view(rows, memory);
}

Batch TextTask::batch(Split split, const Examples& which, BatchMemory& memory) {
  const TokenBatch to = room(which.count, memory);
  const std::size_t n = config_.length;
  for (std::size_t row = 0; row < which.count; ++row) {
    const TokenBatch one{n, to.inputs.subspan(row * n, n), to.targets.subspan(row * n, n)};
    const std::size_t window = which.first + row * which.stride;
    if (split == Split::kValidation) {
      corpus_->validation_batch(window, one);
    } else {
      corpus_->batch(window, one);
    }
  }
  return view(which.count, memory);
}

void TextTask::add(const Batch& batch, ConstMatrix /*scores*/, Tally& tally) const {
  tally.bytes += vocabulary_->count_bytes(batch.targets);
}

Judgement TextTask::judge(Split split, const Tally& tally) const {
  const double loss = tally.mean_loss();
  const double perplexity = std::exp(loss);
  const double bits = tally.loss / std::numbers::ln2 / static_cast<double>(tally.bytes);
  return {
      .split = split,
      .counted = "tokens",
      .count = tally.counted,
      .metrics = {{"loss", loss, fmt::format("{:.4f} nats per token", loss)},
                  {"perplexity", perplexity, fmt::format("{:.3f}", perplexity)},
                  {"bits_per_byte", bits, fmt::format("{:.4f}", bits)},
                  {"accuracy", tally.accuracy(),
                   fmt::format("{:.2f} %", 100.0 * tally.accuracy())}},
      .subject = fmt::format("{} of {}, {} tokens", name_of(split), config_.data, tally.counted),
      .line = fmt::format("loss {:.4f}, perplexity {:.2f}", loss, perplexity)};
}

std::vector<std::int32_t> TextTask::encode(std::string_view prompt) const {
  return vocabulary_->encode("the prompt", prompt);
}

std::string TextTask::decode(std::span<const std::int32_t> tokens) const {
  return vocabulary_->decode(tokens);
}

}  // namespace longspan
