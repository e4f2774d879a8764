// Events of several types in continuous time: a temporal point process (after the Transformer
// Hawkes process, Zuo et al., 2020, arXiv:2002.09291, with its likelihood done right).
//
// A causal model reads the history, a token for each event at its time; from the state after an
// event it says how the intensity of every type runs until the next one (base/intensity.h), so
// that no event is judged by a state that has seen it. The compensator sums over all types.
//
// With a window [0, w] everything in it counts, the wait for the first event and that from the last
// to the end among it: a token before all events stands at 0. Without one a sequence begins with its
// first event, which nothing foretells, and ends with its last. Longer ones are cut; a piece begins
// with the last event of the piece before.
//
// Beside a model stand a Poisson process and a Hawkes process, both fitted to the training split and
// judged on whole sequences; where a model is judged by other data than it learned from, neither.
#pragma once

#include <map>
#include <optional>

#include "longspan/base/choice.h"
#include "longspan/base/intensity.h"
#include "longspan/tasks/classes/bucketed.h"
#include "longspan/tasks/events/event_sets.h"
#include "longspan/tasks/events/hawkes.h"
#include "longspan/tasks/example_source.h"
#include "longspan/tasks/task.h"

namespace longspan {

// Whose quantities are computed: those above, or those of the code published with the paper
// (base/published_hawkes.h), with its heads for the next type and the next time.
enum class EventCompat : std::uint8_t { kNone, kThp };
constexpr Names<2> names_of(EventCompat /*kind*/) { return {"events", "compat", {"none", "thp"}}; }

class EventsTask final : public Task {
 public:
  static constexpr std::string_view kName = "events";

  struct Config {
    ExampleSource source{.examples = 400, .held_out = 100};
    std::size_t length = 256;
    double window = 0.0;
    Choice<Decay> decay = Decay::kExponential;
    Choice<Integration> integration = Integration::kExact;
    Choice<Division> division = Division::kAuto;
    std::string edges;
    Choice<EventCompat> compat = EventCompat::kNone;

    bool operator==(const Config&) const = default;
    template <class See>
    void visit(See see) {
      source.visit(see, "A file of events, or a directory; drawn unless given");
      see("length", length, "Events of a piece of a sequence", from_to(2, 1e6));
      see("window", window, "Sequences last from 0 to this; 0: from first to last event",
          from_to(0, 1e12));
      see("decay", decay, "How intensities run between events: affine or exponential");
      see("integration", integration, "Of intensities: exact, quadrature or monte-carlo");
      see("division", division, "Of one file into splits: by sequences, each by time, or auto");
      see("edges", edges, "Numbers become types: so many as these edges are not above them");
      see("compat", compat, "thp: the loss of the published code, which is no likelihood");
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
  void arrange(Split split, std::size_t count) override;
  Batch batch(Split split, const Examples& which, BatchMemory& memory) override;
  std::string_view unit() const override { return "events"; }
  bool timed() const override { return true; }
  TaskOptions learned() const override;
  void use_learned(const TaskOptions& facts) override;
  Criterion criterion() const override {
    return published() ? Criterion{} : Criterion{.metric = "log_likelihood", .higher = true};
  }
  TimedTokens begin(std::string_view prompt) const override;
  std::optional<TimedToken> draw_next(std::span<const float> scores, double last,
                                      RandomKey key) const override;
  std::string tell(const TimedTokens& all) const override;
  void add(const Batch& batch, ConstMatrix scores, Tally& tally) const override;
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
    std::vector<EventSequence> sequences;  // their times in the unit
    std::vector<Piece> pieces;
  };
  // What stands beside a model, and what it made of a split.
  struct Baselines {
    HawkesProcess poisson;
    std::optional<HawkesProcess> hawkes;  // unless there are too many types to fit one
  };
  struct Beside {
    EventScore poisson;
    std::optional<EventScore> hawkes;
  };

  EventSets read() const;
  double window() const;
  bool published() const { return config_.compat == EventCompat::kThp; }
  void measure_time();
  void cut(const EventSequence& events, std::vector<Piece>& pieces) const;
  std::vector<const Set*> sets(Split split) const;
  const Piece& piece(Split split, std::size_t at) const;
  Batch fill(std::span<const Piece* const> rows, BatchMemory& memory) const;
  void add_published(const Batch& batch, ConstMatrix scores, Tally& tally) const;
  EventScore judged(const HawkesProcess& process, Split split) const;
  void tell(std::string_view name, const EventScore& score, Judgement& judgement) const;

  Config config_;
  std::vector<double> edges_;
  Set training_, validation_, test_;
  std::size_t types_ = 0;
  double unit_ = 1.0;     // the mean gap of training
  double longest_ = 1.0;  // gap of training, in the unit
  std::string checksum_;  // of the data
  // Of the data that a model was trained on. What judges it may be others: then they are counted in
  // its time, and no process was fitted to what it learned from.
  struct Learned {
    std::size_t types = 0;
    double unit = 1.0;
    double longest = 1.0;
    std::string checksum;
  };
  std::optional<Learned> known_;
  Bucketed bucketed_;
  std::optional<Baselines> baselines_;
  std::map<Split, Beside> beside_;
};

}  // namespace longspan
