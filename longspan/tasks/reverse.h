// Sequence to sequence: a random sequence backwards.
//
//   source   x_1 … x_n          symbols from 1 … s, the encoder's
//   tokens   0 x_n … x_1        the decoder's, one token late
//   targets  x_n … x_1 0        0 ends the answer
//
// Judged by the share of targets that were the likeliest, and of sequences where all were.
#pragma once

#include "longspan/tasks/symbol_task.h"

namespace longspan {

class ReverseTask final : public SymbolTask {
 public:
  static constexpr std::string_view kName = "reverse";

  struct Config : SymbolConfig {
    Config() : SymbolConfig{.length = 16, .symbols = 32} {}
  };

  explicit ReverseTask(const SymbolConfig& config);

  std::string_view name() const override { return kName; }
  std::string describe() const override;
  ModelNeeds needs() const override {
    return {.family = Family::kEncoderDecoder,
            .vocabulary = config().symbols + 1,
            .length = config().length + 1,
            .source_length = config().length};
  }
  void add(const Batch& batch, ConstMatrix scores, Tally& tally) const override;
  Judgement judge(Split split, const Tally& tally) const override;
  std::vector<std::int32_t> encode(std::string_view prompt) const override;
  std::int32_t boundary() const override { return 0; }

 private:
  Batch room(std::size_t rows, BatchMemory& memory) const override;
  void fill(RandomKey key, std::uint64_t index, std::size_t row,
            BatchMemory& memory) const override;
};

}  // namespace longspan
