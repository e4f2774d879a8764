#include "longspan/tasks/text.h"

#include <algorithm>
#include <utility>

#include "longspan/base/error.h"
#include "longspan/io/file.h"

namespace longspan {

namespace {

constexpr std::string_view kText = "text";

template <class Token>
std::vector<Token> narrow(std::span<const std::int32_t> tokens) {
  std::vector<Token> narrowed(tokens.size());
  std::ranges::transform(tokens, narrowed.begin(),
                         [](std::int32_t t) { return static_cast<Token>(t); });
  return narrowed;
}

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

void copy_window(const TokenSequence& tokens, std::size_t start, std::size_t row,
                 const TokenBatch& batch) {
  tokens.copy(start, batch.inputs.subspan(row * batch.length, batch.length));
  tokens.copy(start + 1, batch.targets.subspan(row * batch.length, batch.length));
}

}  // namespace

TokenSequence::TokenSequence(std::span<const std::int32_t> tokens, std::size_t vocabulary_size) {
  if (vocabulary_size <= 0x100) {
    tokens_ = narrow<std::uint8_t>(tokens);
  } else if (vocabulary_size <= 0x10000) {
    tokens_ = narrow<std::uint16_t>(tokens);
  } else {
    tokens_ = narrow<std::int32_t>(tokens);
  }
}

std::size_t TokenSequence::size() const {
  return std::visit([](const auto& tokens) { return tokens.size(); }, tokens_);
}

void TokenSequence::copy(std::size_t first, std::span<std::int32_t> into) const {
  std::visit(
      [&](const auto& tokens) {
        require(first <= tokens.size() && into.size() <= tokens.size() - first,
                "[{}] got tokens {} to {}; need them below {}", kText, first, first + into.size(),
                tokens.size());
        std::copy_n(tokens.begin() + static_cast<std::ptrdiff_t>(first), into.size(), into.begin());
      },
      tokens_);
}

TextCorpus::TextCorpus(const std::filesystem::path& path, std::string_view kind)
    : TextCorpus(path, read_file(kText, path, kMostData), kind) {}

TextCorpus::TextCorpus(const std::filesystem::path& path, const std::string& text,
                       std::string_view kind)
    : name_(path.string()),
      vocabulary_(Vocabulary::make(kind, name_, text)),
      tokens_(vocabulary_.encode(name_, text), vocabulary_.size()) {}

TextCorpus::TextCorpus(const std::filesystem::path& path, Vocabulary vocabulary)
    : name_(path.string()),
      vocabulary_(std::move(vocabulary)),
      tokens_(vocabulary_.encode(name_, read_file(kText, path, kMostData)), vocabulary_.size()) {}

void TextCorpus::require_length(std::size_t length) const {
  require(length > 0, "[{}] the length is 0; need at least 1", kText);
  // Validation is the smaller part: ⌈T/10⌉ ≥ n + 1 from T = 10 n + 1 on; then ⌊9T/10⌋ ≥ n + 1 too,
  // since 9 n ≥ n + 1.
  require((size() + 9) / 10 > length,
          "[{}] {} has {} tokens; need at least {} for length {} (one tenth is for validation)",
          kText, name_, size(), 10 * length + 1, length);
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
  std::vector<std::size_t> counts(vocabulary_.size());
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
          "[{}] got windows {} to {}; {} has {} of length {}", kText, first, first + rows, name_,
          available, batch.length);
  for (std::size_t row = 0; row < rows; ++row) {
    copy_window(tokens_, begin + (first + row) * batch.length, row, batch);
  }
}

}  // namespace longspan
