#include "longspan/tasks/text.h"

#include <algorithm>
#include <utility>

#include "longspan/base/error.h"

namespace longspan {

namespace {

constexpr std::string_view kText = "text";

std::size_t rows_of(const TokenBatch& batch) {
  require(batch.length > 0, "[{}] got windows of 0 tokens; need at least 1", kText);
  require(batch.inputs.size() == batch.targets.size() && batch.inputs.size() % batch.length == 0,
          "[{}] got room for {} inputs and {} targets; need the same whole number of windows of {}",
          kText, batch.inputs.size(), batch.targets.size(), batch.length);
  return batch.inputs.size() / batch.length;
}

std::size_t count_windows(std::size_t tokens, std::size_t length) {
  require(length > 0, "[{}] got windows of 0 tokens; need at least 1", kText);
  return tokens == 0 ? 0 : (tokens - 1) / length;
}

void copy_window(const TokenFile& tokens, std::size_t start, std::size_t row,
                 const TokenBatch& batch) {
  tokens.copy_with_next(start, batch.inputs.subspan(row * batch.length, batch.length),
                        batch.targets.subspan(row * batch.length, batch.length));
}

}  // namespace

TextCorpus::TextCorpus(const std::filesystem::path& path, std::string_view kind)
    : tokens_(path, kind) {}

TextCorpus::TextCorpus(const std::filesystem::path& path, Vocabulary vocabulary)
    : tokens_(path, std::move(vocabulary)) {}

void TextCorpus::require_length(std::size_t length) const {
  require(length > 0, "[{}] the length is 0; need at least 1", kText);
  // Validation is the smaller part: ⌈T/10⌉ ≥ n + 1 from T = 10 n + 1 on; then ⌊9T/10⌋ ≥ n + 1 too,
  // since 9 n ≥ n + 1.
  require((size() + 9) / 10 > length,
          "[{}] {} has {} tokens; need at least {} for length {} (one tenth is for validation)",
          kText, tokens_.name(), size(), 10 * length + 1, length);
}

void TextCorpus::training_batch(std::uint64_t seed, std::uint64_t step,
                                const TokenBatch& batch) const {
  require_length(batch.length);
  const std::size_t rows = rows_of(batch);
  const RandomKey key = derive(derive(RandomKey{seed}, "text"), step);
  const std::size_t starts = training_size() - batch.length;
  for (std::size_t row = 0; row < rows; ++row) {
    copy_window(tokens_, random_below(key, row, starts), row, batch);
  }
}

std::vector<std::size_t> TextCorpus::training_counts() const {
  std::vector<std::size_t> counts(vocabulary().size());
  std::vector<std::int32_t> part(4096);
  for (std::size_t first = 0; first < training_size(); first += part.size()) {
    part.resize(std::min(part.size(), training_size() - first));
    tokens_.copy(first, part);
    for (const std::int32_t token : part) ++counts[static_cast<std::size_t>(token)];
  }
  return counts;
}

std::size_t TextCorpus::validation_windows(std::size_t length) const {
  return count_windows(validation_size(), length);
}

void TextCorpus::validation_batch(std::size_t first, const TokenBatch& batch) const {
  consecutive(training_size(), size(), first, batch);
}

std::size_t TextCorpus::windows(std::size_t length) const { return count_windows(size(), length); }

void TextCorpus::batch(std::size_t first, const TokenBatch& batch) const {
  consecutive(0, size(), first, batch);
}

void TextCorpus::consecutive(std::size_t begin, std::size_t end, std::size_t first,
                             const TokenBatch& batch) const {
  const std::size_t rows = rows_of(batch);
  const std::size_t available = count_windows(end - begin, batch.length);
  require(first <= available && rows <= available - first,
          "[{}] got windows {} to {}; {} has {} of length {}", kText, first, first + rows,
          tokens_.name(), available, batch.length);
  for (std::size_t row = 0; row < rows; ++row) {
    copy_window(tokens_, begin + (first + row) * batch.length, row, batch);
  }
}

}  // namespace longspan
