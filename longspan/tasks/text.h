// Text for language modelling: predict each token from those before it.
//
//   tokens      t_0 … t_{T-1} of one file
//   training    the first ⌊9T/10⌋, in random windows
//   validation  the rest, in consecutive windows
//   a window    inputs  t_s … t_{s+n-1},  targets  t_{s+1} … t_{s+n}
//
// The file may be larger than memory (token_file.h). The training windows of a step are a pure function of (seed, step, row): resuming needs the step
// and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/base/random.h"
#include "longspan/tasks/token_file.h"

namespace longspan {

// Where windows go: `inputs` and `targets` hold rows × length tokens each, row after row.
struct TokenBatch {
  std::size_t length = 0;
  std::span<std::int32_t> inputs;
  std::span<std::int32_t> targets;
};

class TextCorpus {
 public:
  // `kind` is "bytes" or "characters"; the characters are those of the whole file.
  TextCorpus(const std::filesystem::path& path, std::string_view kind);
  // With the vocabulary of a trained model.
  TextCorpus(const std::filesystem::path& path, Vocabulary vocabulary);

  const Vocabulary& vocabulary() const { return tokens_.vocabulary(); }
  std::size_t size() const { return tokens_.size(); }
  std::size_t training_size() const {
    return tokens_.size() / 10 * 9 + tokens_.size() % 10 * 9 / 10;
  }
  std::size_t validation_size() const { return size() - training_size(); }

  // Throws Error unless both parts hold a window of `length` tokens and the one after.
  void require_length(std::size_t length) const;

  void training_batch(std::uint64_t seed, std::uint64_t step, const TokenBatch& batch) const;

  // How often each token of the vocabulary is in the training part.
  std::vector<std::size_t> training_counts() const;

  // Consecutive windows cover a part except for less than one window at its end.
  std::size_t validation_windows(std::size_t length) const;
  // Windows first, first + 1, …, one per row.
  void validation_batch(std::size_t first, const TokenBatch& batch) const;

  // The same over the whole file, for text that was never trained on.
  std::size_t windows(std::size_t length) const;
  void batch(std::size_t first, const TokenBatch& batch) const;

 private:
  void consecutive(std::size_t begin, std::size_t end, std::size_t first,
                   const TokenBatch& batch) const;

  TokenFile tokens_;
};

}  // namespace longspan
