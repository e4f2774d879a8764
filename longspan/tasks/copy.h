// The duplication task of Reformer (Kitaev et al., 2020, arXiv:2001.04451, section 5): sequences
//
//   s = 0 w 0 w       w of n/2 − 1 random symbols from 1 … symbols
//
// that a causal decoder continues. It reads s one token late, 0 s_0 … s_{n−2}, and at position i
// answers s_i; the targets of the first half, which nothing foretells, are ignored. Attention that
// cannot reach n/2 tokens back cannot learn it.
#pragma once

#include "longspan/tasks/symbol_task.h"

namespace longspan {

class CopyTask final : public SymbolTask {
 public:
  static constexpr std::string_view kName = "copy";

  struct Config : SymbolConfig {
    Config() : SymbolConfig{.length = 128, .symbols = 127} {}
  };

  explicit CopyTask(const SymbolConfig& config);

  std::string_view name() const override { return kName; }
  std::string describe() const override;
  ModelNeeds needs() const override {
    return {.vocabulary = config().symbols + 1, .length = config().length};
  }
  // One layer finds the token that stands half a sequence back by its position.
  Protocol protocol() const override {
    return {.layers = 1, .heads = 1, .steps = 300, .learning_rate = 3e-3};
  }
  Judgement judge(Split split, const Tally& tally) const override;
  // w → 0 0 w 0: what is read until the second w begins.
  std::vector<std::int32_t> encode(std::string_view prompt) const override;
  std::size_t prelude() const override { return 1; }  // it reads one token late

 private:
  Batch room(std::size_t rows, BatchMemory& memory) const override;
  void fill(RandomKey key, std::uint64_t index, std::size_t row,
            BatchMemory& memory) const override;
};

}  // namespace longspan
