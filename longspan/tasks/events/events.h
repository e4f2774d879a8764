// Events of several types in continuous time: a temporal point process (after the Transformer
// Hawkes process, Zuo et al., 2020, arXiv:2002.09291, with its likelihood done right).
//
// A causal model reads the history, a token for each event at its time; from the state after an
// event it says how the intensity of every type runs until the next one (layers/event_loss.h), so
// that no event is judged by a state that has seen it. The compensator sums over all types.
//
// With a window [0, w] everything in it counts, the wait for the first event and that from the last
// to the end among it: a token before all events stands at 0. Without one a sequence begins with its
// first event, which nothing foretells, and ends with its last. Longer ones are cut; a piece begins
// with the last event of the piece before.
#pragma once

#include "longspan/base/choice.h"
#include "longspan/tasks/classes/bucketed.h"
#include "longspan/tasks/events/hawkes.h"
#include "longspan/tasks/example_source.h"
#include "longspan/tasks/task.h"

namespace longspan {

enum class EventDecay : std::uint8_t { kAffine, kExponential };
constexpr Names<2> names_of(EventDecay /*kind*/) {
  return {"events", "decay", {"affine", "exponential"}};
}

class EventsTask final : public Task {
 public:
  static constexpr std::string_view kName = "events";

  struct Config {
    ExampleSource source{.examples = 400, .held_out = 100};
    std::size_t length = 256;
    double window = 0.0;
    Choice<EventDecay> decay = EventDecay::kExponential;

    bool operator==(const Config&) const = default;
    template <class See>
    void visit(See see) {
      source.visit(see, "Lines of {\"t\": …, \"m\": …}, or a directory; drawn unless given");
      see("length", length, "Events of a piece of a sequence", from_to(2, 1e6));
      see("window", window, "Sequences last from 0 to this; 0: from first to last event",
          from_to(0, 1e12));
      see("decay", decay, "How intensities run between events: affine or exponential");
    }
  };

  explicit EventsTask(Config config);

  std::string_view name() const override { return kName; }
  TaskOptions options() const override;
  std::string_view idle(std::string_view option) const override;
  void open() override;
  std::string checksum() const override;
  std::string describe() const override;
  ModelNeeds needs() const override;
  Protocol protocol() const override {
    return {.heads = 4,
            .positions = PositionKind::kTemporal,
            .steps = 600,
            .batch = 16,
            .learning_rate = 2e-3};
  }
  std::size_t examples(Split split) const override;
  Split held_out() const override;
  Batch training_batch(std::uint64_t seed, std::uint64_t step, std::size_t rows,
                       BatchMemory& memory) override;
  Batch batch(Split split, const Examples& which, BatchMemory& memory) override;
  std::string_view unit() const override { return "events"; }
  bool timed() const override { return true; }
  Criterion criterion() const override { return {.metric = "log_likelihood", .higher = true}; }
  Judgement judge(Split split, const Tally& tally) const override;

 private:
  // A token, the type of the next event and the gap until it, in the unit of time.
  struct Piece {
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> next;
    std::vector<float> times;
    std::vector<float> gaps;
  };
  struct Set {
    std::vector<EventSequence> sequences;
    std::vector<Piece> pieces;
  };
  // Counts of a split, for what a Poisson process would make of it.
  struct Facts {
    std::vector<double> events;  // by type
    double time = 0.0;
  };
  struct Sets {
    Set training, validation, test;
  };

  Sets read() const;
  double window() const;
  void cut(const EventSequence& events, std::vector<Piece>& pieces) const;
  std::vector<const Set*> sets(Split split) const;
  const Piece& piece(Split split, std::size_t at) const;
  Facts facts(Split split) const;
  Batch fill(std::span<const Piece* const> rows, BatchMemory& memory) const;

  Config config_;
  Sets sets_;
  std::size_t types_ = 0;
  double unit_ = 1.0;  // the mean gap of training
  Bucketed bucketed_;
};

}  // namespace longspan
