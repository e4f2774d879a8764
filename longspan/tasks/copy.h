// The duplication task of Reformer (Kitaev et al., 2020, arXiv:2001.04451, section 5): sequences
//
//   s = 0 w 0 w       w of n/2 − 1 random symbols from 1 … symbols
//
// that a causal decoder continues. It reads s one token late, 0 s_0 … s_{n−2}, and at position i
// answers s_i; the targets of the first half, which nothing foretells, are ignored. Attention that
// cannot reach n/2 tokens back cannot learn it.
#pragma once

#include "longspan/base/random.h"
#include "longspan/tasks/task.h"

namespace longspan {

class CopyTask final : public Task {
 public:
  static constexpr std::string_view kName = "copy";

  struct Config {
    std::size_t length = 128;
    std::size_t symbols = 127;
    std::size_t held_out = 200;

    bool operator==(const Config&) const = default;
    template <class See>
    void visit(See see) {
      see("length", length, "Tokens per sequence");
      see("symbols", symbols, "Different symbols");
      see("held_out", held_out, "Sequences that judge the model");
    }
  };

  explicit CopyTask(const Config& config);

  std::string_view name() const override { return kName; }
  TaskOptions options() const override;
  std::string describe() const override;
  ModelNeeds needs() const override {
    return {.vocabulary = config_.symbols + 1, .length = config_.length};
  }
  std::size_t examples(Split split) const override;
  Batch training_batch(std::uint64_t seed, std::uint64_t step, std::size_t rows,
                       BatchMemory& memory) override;
  Batch batch(Split split, const Examples& which, BatchMemory& memory) override;
  Judgement judge(Split split, const Tally& tally) const override;
  // w → 0 0 w 0: what is read until the second w begins.
  std::vector<std::int32_t> encode(std::string_view prompt) const override;
  std::string decode(std::span<const std::int32_t> tokens) const override;

 private:
  // Sequence number `index` of the stream `key` as row `row` of the batch.
  void fill(RandomKey key, std::uint64_t index, std::size_t row, BatchMemory& memory) const;
  Batch room(std::size_t rows, BatchMemory& memory) const;

  Config config_;
};

}  // namespace longspan
