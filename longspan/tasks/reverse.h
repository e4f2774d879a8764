// Sequence to sequence: a random sequence backwards.
//
//   source   x_1 … x_n          symbols from 1 … s, the encoder's
//   tokens   0 x_n … x_1        the decoder's, one token late
//   targets  x_n … x_1 0        0 ends the answer
//
// Judged by the share of targets that were the likeliest, and of sequences where all were.
#pragma once

#include "longspan/base/random.h"
#include "longspan/tasks/task.h"

namespace longspan {

class ReverseTask final : public Task {
 public:
  static constexpr std::string_view kName = "reverse";

  struct Config {
    std::size_t length = 16;
    std::size_t symbols = 32;
    std::size_t held_out = 200;

    bool operator==(const Config&) const = default;
    template <class See>
    void visit(See see) {
      see("length", length, "Tokens per sequence");
      see("symbols", symbols, "Different symbols");
      see("held_out", held_out, "Sequences that judge the model");
    }
  };

  explicit ReverseTask(const Config& config);

  std::string_view name() const override { return kName; }
  TaskOptions options() const override;
  std::string describe() const override;
  ModelNeeds needs() const override {
    return {.family = "encoder-decoder",
            .vocabulary = config_.symbols + 1,
            .length = config_.length + 1,
            .source_length = config_.length};
  }
  std::size_t examples(Split split) const override;
  Batch training_batch(std::uint64_t seed, std::uint64_t step, std::size_t rows,
                       BatchMemory& memory) override;
  Batch batch(Split split, const Examples& which, BatchMemory& memory) override;
  void add(const Batch& batch, ConstMatrix scores, Tally& tally) const override;
  Judgement judge(Split split, const Tally& tally) const override;
  std::vector<std::int32_t> encode(std::string_view prompt) const override;
  std::string decode(std::span<const std::int32_t> tokens) const override;
  std::int32_t boundary() const override { return 0; }

 private:
  void fill(RandomKey key, std::uint64_t index, std::size_t row, BatchMemory& memory) const;
  Batch room(std::size_t rows, BatchMemory& memory) const;

  Config config_;
};

}  // namespace longspan
