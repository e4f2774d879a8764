// Which of two symbols is the more frequent? A task that attention solves and a look at one token
// does not.
//
//   a sequence   n tokens of 0 and 1, n odd, each 1 with a probability of its own sequence
//   the class    1 if there are more ones than zeros
//
// Sequence i of a split is a pure function of (seed, split, i), so that resuming needs the step and
// nothing else.
#pragma once

#include "longspan/base/number.h"
#include "longspan/tasks/task.h"

namespace longspan {

struct MajorityConfig {
  std::size_t length = 31;
  std::size_t held_out = 200;

  bool operator==(const MajorityConfig&) const = default;
  // Names, values, purposes and bounds of its options; the command line makes flags of them.
  template <class See>
  void visit(See see) {
    see("length", length, "Tokens per sequence", from_to(1, 1e7));
    see("held_out", held_out, "Sequences that judge the model", from_to(1, 1e7));
  }
};

class MajorityTask final : public Task {
 public:
  static constexpr std::string_view kName = "majority";
  using Config = MajorityConfig;
  explicit MajorityTask(const MajorityConfig& config);

  std::string_view name() const override { return kName; }
  TaskOptions options() const override;
  std::string describe() const override;
  ModelNeeds needs() const override {
    return {.family = Family::kEncoder,
            .head = HeadKind::kClassifier,
            .vocabulary = 2,
            .classes = 2,
            .length = config_.length};
  }
  std::size_t examples(Split split) const override;
  Batch training_batch(std::uint64_t seed, std::uint64_t step, std::size_t rows,
                       BatchMemory& memory) override;
  Batch batch(Split split, const Examples& which, BatchMemory& memory) override;
  Judgement judge(Split split, const Tally& tally) const override;

 private:
  Batch fill(std::uint64_t seed, const Examples& which, BatchMemory& memory) const;

  MajorityConfig config_;
};

}  // namespace longspan
