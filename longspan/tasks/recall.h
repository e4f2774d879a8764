// Multi-query associative recall (Arora et al. 2023): pairs of a key and a value, then keys again,
// each to be answered by its value.
//
//   k₁ v₁ k₂ v₂ … k_N v_N | slots of two tokens, N of them with a key first, the rest random
//
// Of a vocabulary of v tokens the keys are N different ones of 1 … v/2 − 1 and the values of
// v/2 … v − 1. The slots of the N keys are drawn without replacement with the weights
// a·i^(a−1), a = 0.01, of slot i = 1, 2, …: near ones are favoured. At a key's second place the
// target is its value; no other place has one.
//
// A model that keeps a state of fixed size can hold only so many pairs: accuracy against the bytes
// of the state is how such models are compared.
#pragma once

#include "longspan/base/number.h"
#include "longspan/tasks/drawn_task.h"

namespace longspan {

class RecallTask final : public DrawnTask {
 public:
  static constexpr std::string_view kName = "recall";

  struct Config {
    std::size_t length = 64;
    std::size_t pairs = 8;
    std::size_t symbols = 256;
    std::size_t held_out = 1000;

    bool operator==(const Config&) const = default;
    template <class See>
    void visit(See see) {
      see("length", length, "Tokens per sequence", from_to(4, 1e7));
      see("pairs", pairs, "Keys with a value each", from_to(1, 1e6));
      see("symbols", symbols, "Different tokens: keys, values and 0", from_to(4, 1e6));
      see("held_out", held_out, "Sequences that judge the model", from_to(1, 1e7));
    }
  };

  explicit RecallTask(const Config& config);

  std::string_view name() const override { return kName; }
  TaskOptions options() const override;
  Criterion criterion() const override { return kByAccuracy; }
  std::string describe() const override;
  ModelNeeds needs() const override;
  // A token must know the one before it, or two layers of attention take long to find that out.
  Protocol protocol() const override {
    return {.heads = 1,
            .positions = PositionKind::kNone,
            .before = "conv:width=2",
            .steps = 300,
            .batch = 64,
            .learning_rate = 3e-3};
  }
  Judgement judge(Split split, const Tally& tally) const override;

 private:
  std::size_t held_out_examples() const override { return config_.held_out; }
  Batch room(std::size_t rows, BatchMemory& memory) const override;
  void fill(RandomKey key, std::uint64_t index, std::size_t row,
            BatchMemory& memory) const override;

  Config config_;
};

}  // namespace longspan
