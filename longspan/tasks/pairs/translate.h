// Sequence to sequence, character by character: an encoder reads the source, a decoder writes the
// target from a boundary token to the next.
//
// Pairs come from lines of a source and a target with a tab between, or are drawn (grammar.h). A
// target is right where every character of it is the likeliest given those before, which is just
// where greedy generation writes it.
#pragma once

#include <optional>

#include "longspan/base/number.h"
#include "longspan/tasks/classes/bucketed.h"
#include "longspan/tasks/example_source.h"
#include "longspan/tasks/pairs/grammar.h"
#include "longspan/tasks/task.h"

namespace longspan {

class TranslateTask final : public Task {
 public:
  static constexpr std::string_view kName = "translate";

  struct Config {
    ExampleSource source{.held_out = 1000};
    Choice<Grammar> grammar = Grammar::kDates;
    std::size_t length = 32;

    bool operator==(const Config&) const = default;
    template <class See>
    void visit(See see) {
      source.visit(see, "A file of pairs, or a directory; drawn unless given");
      see("grammar", grammar, "What is drawn: reverse, sort or dates");
      see("length", length, "Characters of the longest source or target", from_to(1, 1e6));
    }
  };

  explicit TranslateTask(Config config);

  std::string_view name() const override { return kName; }
  TaskOptions options() const override;
  Criterion criterion() const override { return kByAccuracy; }
  std::string_view idle(std::string_view option) const override;
  void open() override;
  std::vector<Family> families() const override { return {Family::kEncoderDecoder}; }
  std::string checksum() const override;
  std::string describe() const override;
  ModelNeeds needs() const override;
  std::size_t examples(Split split) const override;
  Split held_out() const override;
  Batch training_batch(std::uint64_t seed, std::uint64_t step, std::size_t rows,
                       BatchMemory& memory) override;
  Batch batch(Split split, const Examples& which, BatchMemory& memory) override;
  void add(const Batch& batch, ConstMatrix scores, Tally& tally) const override;
  Judgement judge(Split split, const Tally& tally) const override;
  bool learns_vocabulary() const override { return true; }
  const Vocabulary* vocabulary() const override { return vocabulary_ ? &*vocabulary_ : nullptr; }
  void use(const Vocabulary& vocabulary) override { vocabulary_ = vocabulary; }
  std::vector<std::int32_t> encode(std::string_view prompt) const override;
  std::string decode(std::span<const std::int32_t> tokens) const override;
  std::size_t added_tokens() const override { return 1; }  // the boundary
  std::int32_t boundary() const override { return static_cast<std::int32_t>(vocabulary_->size()); }

 private:
  struct Pair {
    std::vector<std::int32_t> source;
    std::vector<std::int32_t> target;
  };
  struct Texts {
    std::vector<TextPair> training, validation, test;
  };
  Texts read() const;
  const std::vector<Pair>& set(Split split) const;
  Batch fill(std::span<const Pair* const> pairs, BatchMemory& memory) const;

  Config config_;
  std::optional<Vocabulary> vocabulary_;
  std::vector<Pair> training_, validation_, test_;
  Bucketed bucketed_;
};

}  // namespace longspan
