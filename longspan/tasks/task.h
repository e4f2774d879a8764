// A task: what a model is trained on and judged by. Training, evaluation and the command line know
// tasks by this interface, and by their line in registry.cc, alone.
//
// A task says what it needs of a model, gives batches of its splits, and turns what an evaluation
// summed into metrics. Its options are the fields of a config (base/config.h); their names, values
// and what they are for come from its visit().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/base/batch.h"
#include "longspan/base/model_kind.h"
#include "longspan/base/random.h"
#include "longspan/base/view.h"
#include "longspan/tasks/vocabulary.h"

namespace longspan {

// Options by name, as text.
using TaskOptions = std::map<std::string, std::string, std::less<>>;

struct ModelNeeds {
  Choice<Family> family = Family::kDecoder;
  Choice<HeadKind> head = HeadKind::kLanguage;
  Choice<Pool> pool = Pool::kFirst;  // of a classifier or a head of pairs
  std::string loss = "cross-entropy";
  std::size_t vocabulary = 0;     // tokens that it reads
  std::size_t inputs = 0;         // features that it reads in place of tokens
  std::size_t classes = 0;        // outputs of a head that is not of a language model
  std::size_t length = 0;         // tokens of a sequence, the decoder's where there are two
  std::size_t source_length = 0;  // the encoder's
  std::size_t judged_length = 0;  // of the longest that judge it, where those are longer
};

// How mechanisms are compared on a task unless somebody says otherwise: a model and a course that
// tell them apart in minutes.
struct Protocol {
  std::size_t layers = 2;
  std::size_t d_model = 64;
  std::size_t heads = 2;
  Choice<PositionKind> positions = PositionKind::kLearned;
  std::string before;  // what every other layer has in the place of the mechanism; empty: none does
  std::uint64_t steps = 1000;
  std::size_t batch = 32;
  double learning_rate = 1e-3;
  TaskOptions options = {};  // of the task, unless typed
};

enum class Split : std::uint8_t { kTraining, kValidation, kTest, kAll };
constexpr Names<4> names_of(Split /*kind*/) {
  return {"task", "split", {"training", "validation", "test", "all"}};
}

// Which examples of a split make a batch: first, first + stride, …
struct Examples {
  std::size_t first = 0;
  std::size_t count = 0;
  std::size_t stride = 1;
};

// The memory of a batch, of whoever asks for it: it grows with the first batch and is overwritten
// by the next.
struct BatchMemory {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
  std::vector<std::int32_t> source;
  std::vector<std::int32_t> lengths;
  std::vector<std::int32_t> source_lengths;
  std::vector<float> features;
  std::vector<float> times;
  std::vector<float> values;
  std::vector<float> teacher_scores;  // of whoever has a teacher
  std::vector<float> teacher_states;
};

// Tokens that happened, in the unit of time that a model reads.
struct TimedToken {
  std::int32_t token = 0;
  double time = 0.0;
};
struct TimedTokens {
  std::vector<std::int32_t> tokens;
  std::vector<double> times;
};

struct ClassTally {
  std::size_t counted = 0;
  std::size_t correct = 0;
};

// What an evaluation summed. The first three are the loss's; a task adds the others where it needs
// them.
struct Tally {
  double loss = 0.0;
  std::size_t counted = 0;
  std::size_t correct = 0;
  std::size_t sequences = 0;  // or pairs of them, where an example has two
  std::size_t perfect = 0;    // sequences all of whose targets were correct
  std::size_t bytes = 0;      // of the text that the targets are
  std::vector<ClassTally> by_class = {};
  double guess = 0.0;                 // the loss of guessing without reading
  double likelihood = 0.0;            // in logarithms, where it is not the loss
  double squares = 0.0;               // of the errors of what was predicted
  std::vector<double> rescaled = {};  // gaps between events, in the time of their process

  double mean_loss() const { return loss / static_cast<double>(counted); }
  double accuracy() const {
    return static_cast<double>(correct) / static_cast<double>(counted == 0 ? 1 : counted);
  }
};

struct Metric {
  std::string name;  // "bits_per_byte"
  double value = 0.0;
  std::string text;  // as people read it; empty: for programs only
};

struct Judgement {
  Split split = Split::kValidation;
  std::string counted;  // what the next number counts: tokens, images, sequences
  std::size_t count = 0;
  std::vector<Metric> metrics;  // the first is the loss
  std::string subject;          // of what, "200 test images"
  std::string line;             // "loss 1.2345, accuracy 67.00 %"

  double loss() const { return metrics.front().value; }
  // Of the metric with this name. Throws Error where there is none.
  double at(std::string_view metric) const;
};

// Which of its metrics tells models apart.
struct Criterion {
  std::string_view metric = "loss";
  bool higher = false;  // is better
  bool share = false;   // of what is counted, and shown as a percentage
};
inline constexpr Criterion kByAccuracy{"accuracy", true, true};

class Task {
 public:
  virtual ~Task() = default;
  virtual std::string_view name() const = 0;
  virtual TaskOptions options() const = 0;
  // Why an option means nothing beside the others, "the model mlp; need encoder"; empty: it does
  // mean something.
  virtual std::string_view idle(std::string_view /*option*/) const { return {}; }
  // Families of the models that it may need, whatever its options; before open() too.
  virtual std::vector<Family> families() const { return {needs().family}; }

  // Whether it is nothing without the option `data`.
  virtual bool needs_data() const { return false; }
  // Reads the data; nothing but text and tokens works before.
  virtual void open() {}
  // Of the data, opened or not, so that others are noticed on resuming; empty: not compared.
  virtual std::string checksum() const { return {}; }
  // The data in a few words.
  virtual std::string describe() const = 0;
  virtual ModelNeeds needs() const = 0;
  virtual Protocol protocol() const { return {}; }

  // How many a split has, 0 where there is no such split. Throws Error where the data are too few
  // to train on.
  virtual std::size_t examples(Split split) const = 0;
  // The split that judges a model while it is trained.
  virtual Split held_out() const { return Split::kValidation; }
  // Batch number `step` of training: a pure function of (seed, step).
  virtual Batch training_batch(std::uint64_t seed, std::uint64_t step, std::size_t rows,
                               BatchMemory& memory) = 0;
  // An evaluation of the first `count` of a split begins: they may come in another order.
  virtual void arrange(Split /*split*/, std::size_t /*count*/) {}
  // The number, in its split, of the example that an evaluation sees at `place`.
  virtual std::size_t arranged(std::size_t place) const { return place; }
  virtual Batch batch(Split split, const Examples& which, BatchMemory& memory) = 0;
  // What the speed of training is counted in, and how many of them a batch has.
  virtual std::string_view unit() const { return "tokens"; }
  virtual std::size_t units(const Batch& batch) const { return batch.batch * batch.length; }

  // Adds what only the task can count; `scores` are the model's of the batch.
  virtual void add(const Batch& /*batch*/, ConstMatrix /*scores*/, Tally& /*tally*/) const {}
  virtual Judgement judge(Split split, const Tally& tally) const = 0;
  virtual Criterion criterion() const { return {}; }

  // Of tasks whose vocabulary is learned from the data: what a trained model keeps of them, and
  // before open() takes their place.
  virtual bool learns_vocabulary() const { return false; }
  virtual const Vocabulary* vocabulary() const { return nullptr; }
  virtual void use(const Vocabulary& /*vocabulary*/) {}
  // Of tasks whose data name their classes: the names, which a trained model keeps, and which before
  // open() take the place of those of the data: other data may lack some of them.
  virtual std::vector<std::string> class_names() const { return {}; }
  virtual void use_classes(std::vector<std::string> /*names*/) {}
  // Further facts of the training data without which a model's answers mean nothing, such as the
  // unit of its times: likewise.
  virtual TaskOptions learned() const { return {}; }
  virtual void use_learned(const TaskOptions& /*facts*/) {}
  // Tokens that a model reads besides.
  virtual std::size_t added_tokens() const { return 0; }
  // Whether it hides tokens from the model: the one behind the vocabulary stands for them.
  virtual bool hides() const { return false; }
  // What a model reads to go on from a text, and the text of what it wrote. An encoder–decoder's
  // decoder begins with, and ends at, the token `boundary`; -1: there is none.
  virtual std::vector<std::int32_t> encode(std::string_view prompt) const;
  virtual std::string decode(std::span<const std::int32_t> tokens) const;
  // Tokens that encode() puts before those of the text.
  virtual std::size_t prelude() const { return 0; }
  // Whether training examples are drawn anew for ever, so that there are no passes over them.
  virtual bool endless() const { return false; }
  // Whether its tokens have times. Then, opened: what a model goes on from; what comes next, drawn
  // from its scores of the last, none where nothing does; and the text of it all.
  virtual bool timed() const { return false; }
  virtual TimedTokens begin(std::string_view prompt) const;
  virtual std::optional<TimedToken> draw_next(std::span<const float> scores, double last,
                                              RandomKey key) const;
  virtual std::string tell(const TimedTokens& all) const;
  virtual std::int32_t boundary() const { return -1; }
};

}  // namespace longspan
