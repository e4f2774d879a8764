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
// Sequences are all of one kind, (n, N), and drawn anew for ever; or of the kinds that were published
// (`protocol` zoology): of v = 8192, 180,000 in all to train on, a batch having those of one kind,
// judged by seven kinds up to four times as long.
//
// A model that keeps a state of fixed size can hold only so many pairs: accuracy against the bytes
// of the state is how such models are compared.
#pragma once

#include "longspan/base/choice.h"
#include "longspan/base/number.h"
#include "longspan/tasks/drawn_task.h"

namespace longspan {

enum class RecallProtocol : std::uint8_t { kQuick, kZoology };
constexpr Names<2> names_of(RecallProtocol /*kind*/) {
  return {"recall", "protocol", {"quick", "zoology"}};
}

// Sequences of a kind.
struct RecallKind {
  std::size_t length = 0;
  std::size_t pairs = 0;
  std::size_t examples = 0;
};

class RecallTask final : public DrawnTask {
 public:
  static constexpr std::string_view kName = "recall";

  struct Config {
    std::size_t length = 64;
    std::size_t pairs = 8;
    std::size_t symbols = 256;
    std::size_t held_out = 1000;
    Choice<RecallProtocol> protocol = RecallProtocol::kQuick;

    bool operator==(const Config&) const = default;
    template <class See>
    void visit(See see) {
      see("length", length, "Tokens per sequence", from_to(4, 1e7));
      see("pairs", pairs, "Keys with a value each", from_to(1, 1e6));
      see("symbols", symbols, "Different tokens: keys, values and 0", from_to(4, 1e6));
      see("held_out", held_out, "Sequences that judge the model, of each kind", from_to(1, 1e7));
      see("protocol", protocol, "quick, or zoology: the published kinds of sequences");
    }
  };

  explicit RecallTask(const Config& config);

  std::string_view name() const override { return kName; }
  TaskOptions options() const override;
  Criterion criterion() const override { return kByAccuracy; }
  std::string describe() const override;
  ModelNeeds needs() const override;
  std::string_view idle(std::string_view option) const override;
  bool endless() const override { return config_.protocol == RecallProtocol::kQuick; }
  std::size_t examples(Split split) const override;
  Batch training_batch(std::uint64_t seed, std::uint64_t step, std::size_t rows,
                       BatchMemory& memory) override;
  // Sorted by kind, so that a batch has few.
  void arrange(Split split, std::size_t count) override;
  std::size_t arranged(std::size_t place) const override {
    return arranged_.empty() ? place : arranged_[place];
  }
  Batch batch(Split split, const Examples& which, BatchMemory& memory) override;
  // A token must know the one before it, or two layers of attention take long to find that out.
  Protocol protocol() const override;
  void add(const Batch& batch, ConstMatrix scores, Tally& tally) const override;
  Judgement judge(Split split, const Tally& tally) const override;

 private:
  // Example number `index` of a kind of a split.
  struct Place {
    std::size_t kind = 0;
    std::size_t index = 0;
  };
  std::span<const RecallKind> kinds(Split split) const;
  Place place(Split split, std::size_t number) const;
  // What a pass over the training examples takes in which order.
  void order_pass(RandomKey key, std::size_t rows);
  Batch draw(Split split, std::span<const Place> places, BatchMemory& memory) const;
  void draw_row(RandomKey key, const RecallKind& kind, std::span<std::int32_t> tokens,
                std::span<std::int32_t> targets) const;

  std::size_t held_out_examples() const override { return config_.held_out; }
  Batch room(std::size_t rows, BatchMemory& memory) const override;
  void fill(RandomKey key, std::uint64_t index, std::size_t row,
            BatchMemory& memory) const override;

  Config config_;
  std::vector<RecallKind> training_;
  std::vector<RecallKind> judging_;
  std::vector<Place> places_;  // of the last batch
  std::vector<std::size_t> arranged_;
  Split arranged_split_ = Split::kAll;
  // Of the pass: batches by number, those of the first kind first, and the examples of each kind.
  std::vector<std::uint32_t> batches_;
  std::vector<std::vector<std::uint32_t>> orders_;
  RandomKey pass_ = 0;
  std::size_t pass_rows_ = 0;
};

}  // namespace longspan
