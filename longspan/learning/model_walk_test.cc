// Dry = meter = formula as integers, and dry arena = arena to the byte, over models drawn from the
// product of families, wirings, rules, mechanisms and options.
//
// LONGSPAN_SAMPLES says how many are drawn; a few by default.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "longspan/base/error.h"
#include "longspan/base/meter.h"
#include "longspan/base/parallel.h"
#include "longspan/learning/forward_learning.h"
#include "longspan/learning/rule.h"
#include "longspan/testing/executed_formula.h"
#include "longspan/testing/executed_rules.h"
#include "longspan/testing/model_samples.h"

namespace longspan {
namespace model_walk_test {

using testing::BatchData;
using testing::ModelCase;
using testing::sample_guest;
using testing::sample_model;
using testing::sample_released;
using testing::sample_stem;

std::uint64_t sample_count() {
  const char* text = std::getenv("LONGSPAN_SAMPLES");
  return text == nullptr ? 240 : std::strtoull(text, nullptr, 10);
}

// Samples whose adapters are wider than the model cannot be built.
bool possible(const ModelCase& c) { return c.config.lora_rank <= c.config.d_model; }

void expect_same_table(CostTable got, const CostTable& want, const std::string& what) {
  for (const auto& [layer, cost] : want) {
    Cost& own = got[layer];
    testing::expect_same(own.forward, cost.forward, what + ": " + layer + " forward");
    testing::expect_same(own.backward, cost.backward, what + ": " + layer + " backward");
    testing::expect_same(own.update, cost.update, what + ": " + layer + " update");
    got.erase(layer);
  }
  for (const auto& [layer, cost] : got) {
    EXPECT_EQ((cost.forward + cost.backward + cost.update).flops(), 0U)
        << what << ": " << layer << " is not expected";
  }
}

template <class Step>
CostTable metered(const Step& step) {
  Meter meter;
  const Meter::Use use(meter);
  step();
  return cost_of(meter);
}

Feedback feedback_of(std::uint64_t n) {
  Feedback feedback;
  feedback.last_layer = std::array{"difference", "modulated", "standard"}[n % 3];
  feedback.injection = std::array{"input", "embedding"}[n / 3 % 2];
  feedback.error_space = std::array{"vocabulary", "model"}[n / 6 % 2];
  feedback.branch_signal = std::array{"output", "sum"}[n / 12 % 2];
  feedback.learners = std::array{"all", "stream"}[n / 24 % 2];
  return feedback;
}

// Whether a layer that is trained has no projections that two passes could compare: latent attention,
// or normed queries.
bool compares_no_projections(const ModelConfig& c) {
  const bool norms = c.query_norm != QueryNorm::kNone;
  const auto any = [&](const std::string& layers, std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < count; ++i) {
      const std::string mixer = turn_of(layers, i);
      if (mixer.starts_with("latent")) return true;
      if (norms && mixer != "fnet" && !mixer.starts_with("conv")) return true;
    }
    return false;
  };
  const bool both = c.family == Family::kEncoderDecoder;
  const std::string& decoder = c.decoder_attention.empty() ? c.attention : c.decoder_attention;
  return any(c.attention, c.frozen_layers, c.layers) || (both && any(decoder, 0, c.decoder_layers));
}

// Whether two passes through such layers or such an embedding are not compared.
bool has_no_outputs(const ModelConfig& c) {
  const bool both = c.family == Family::kEncoderDecoder;
  const bool wired = c.wiring == Wiring::kPreNorm || c.wiring == Wiring::kPostNorm ||
                     c.wiring == Wiring::kReversible;
  const bool projects = c.embedding_projection ||
                        (c.embedding_width > 0 && c.embedding_width != c.d_model) ||
                        (both && c.embedding_norm && c.decoder_norm_first);
  return !wired || !c.first_norm || projects || compares_no_projections(c);
}

// Whether the rule has no way through such a model; it says so then.
bool refuses(std::string_view rule, const ModelConfig& c, bool experts, bool packed) {
  const bool pairs = c.head == HeadKind::kPairs;
  const bool taught = c.loss != "cross-entropy" && c.loss != "squared-error" && c.loss != "binary";
  if ((rule.ends_with("pepita") || rule == "dfa") &&
      (c.pair_classes > 0 || c.loss.starts_with("span"))) {
    return true;
  }
  if (rule.ends_with("pepita") && c.stem != StemKind::kTokens) return true;
  if (rule.ends_with("pepita")) {
    const bool both = c.family == Family::kEncoderDecoder;
    return pairs || taught || !c.stages.empty() ||
           (both && (packed || c.head == HeadKind::kStates)) ||
           (c.family != Family::kPerceptron && has_no_outputs(c));
  }
  return rule == "dfa" && (pairs || c.loss.find("hidden_weight") != std::string::npos || experts ||
                           c.family == Family::kEncoderDecoder || c.wiring == Wiring::kReversible ||
                           !c.stages.empty());
}

void expect_walked(const ModelCase& c, std::uint64_t n) {
  SCOPED_TRACE(c.name);
  Model model(c.config);
  const BatchData data(c.config, c.shape, 7);
  Batch batch = data.view();
  model.allocate(3);

  const CostTable inference = metered([&] { model.evaluate(batch); });
  // How many rows each expert has is a fact that comes with the batch.
  std::vector<std::int32_t> loads = model.loads();
  batch.loads = loads;
  expect_same_table(inference, model.cost(batch, false), "inference, dry");
  expect_same_table(inference, testing::executed_formula(c.config, batch, false),
                    "inference, formula");
  EXPECT_EQ(model.arena().peak(), model.inference_bytes(batch));

  const StepMemory memory = model.walk_training(batch);
  const CostTable training = metered([&] {
    model.forward(batch, 1, 1.0F);
    EXPECT_EQ(model.arena().used(), memory.kept);
    model.backward(batch, 1.0F);
  });
  loads = model.loads();
  batch.loads = loads;
  EXPECT_EQ(model.arena().peak(), memory.peak);
  expect_same_table(training, model.cost(batch, true), "training, dry");
  expect_same_table(training, testing::executed_formula(c.config, batch, true),
                    "training, formula");

  // Steps of 17 through the choices, so that every mechanism meets all of them: models come in
  // turns of 16.
  const Feedback feedback = feedback_of(n + n / 16);
  for (const RuleEntry& entry : rules()) {
    const std::string name(entry.name);
    if (refuses(name, c.config, !loads.empty(), c.shape.packed)) {
      EXPECT_THROW(entry.make(model, feedback, 5)->accumulate(batch, 1, 0.5F), Error) << name;
      continue;
    }
    // In each pass others are chosen among experts.
    if (!loads.empty() && name.ends_with("pepita")) continue;
    const auto rule = entry.make(model, feedback, 5);
    const CostTable step = metered([&] { rule->accumulate(batch, 1, 0.5F); });
    expect_same_table(step, rule->cost(batch), name + ", dry");
    expect_same_table(step, testing::executed_rule(name, c.config, feedback, batch),
                      name + ", formula");
    EXPECT_EQ(model.arena().peak(), rule->walk(batch).peak) << name;
  }
}

TEST(Walk, IsWhatRunsAndWhatTheFormulasSay) {
  for (std::uint64_t n = 0; n < sample_count(); ++n) {
    const ModelCase c = sample_model(n);
    if (possible(c)) expect_walked(c, n);
    if (HasFailure()) return;  // one is enough to look at
  }
}

TEST(Walk, KnowsMixersExpertsAndStages) {
  for (std::uint64_t n = 0; n < (sample_count() + 3) / 4; ++n) {
    ModelCase c = sample_guest(n);
    if (!possible(c)) continue;
    expect_walked(c, n);
    // Once more without what keeps rules from comparing passes.
    c.name += ", plain";
    c.config.feed_forward = "dense";
    c.config.embedding_projection = false;
    c.config.stages = "";
    expect_walked(c, n);
    if (HasFailure()) return;
  }
}

// Twice: the second time without most of what keeps rules from comparing passes.
TEST(Walk, KnowsWhatReleasedModelsHave) {
  for (std::uint64_t n = 0; n < sample_count(); ++n) {
    ModelCase c = sample_released(n);
    if (!possible(c)) continue;
    expect_walked(c, n);
    c.name += ", plain";
    c.config.feed_forward = "dense";
    c.config.embedding_projection = false;
    c.config.embedding_width = 0;
    c.config.decoder_norm_first = false;
    if (c.config.output_width > 0) c.config.tied = false;
    c.config.stages = "";
    c.config.query_norm = QueryNorm::kNone;
    c.config.first_norm = true;
    if (n % 2 == 0) c.config.wiring = n % 4 == 0 ? Wiring::kPreNorm : Wiring::kPostNorm;
    if (n % 2 == 0) c.config.streams = StreamEnd::kMean;
    expect_walked(c, n);
    if (HasFailure()) return;
  }
}

// Sequences of their own lengths, some of them neighbours of one length.
TEST(Walk, OfPackedSequencesIsWhatRunsToo) {
  for (std::uint64_t n = 0; n < (sample_count() + 1) / 2; ++n) {
    ModelCase c = n % 3 == 0 ? sample_model(n) : n % 3 == 1 ? sample_guest(n) : sample_released(n);
    c.config.stages = "";
    c.shape.batch += 4;
    c.shape.length = std::min<std::size_t>(c.shape.length, 9);
    c.shape.padded = c.shape.packed = true;
    if (possible(c)) expect_walked(c, n);
    if (HasFailure()) return;
  }
}

TEST(Walk, OfPerceptronsIsWhatRunsToo) {
  for (const ModelCase& c : testing::perceptron_cases()) {
    for (std::uint64_t n = 0; n < 3; ++n) expect_walked(c, n);
  }
}

// A loss of numbers on models that tell classes apart otherwise.
TEST(Walk, OfAnotherLossIsWhatRunsToo) {
  for (std::uint64_t n = 0; n < std::min<std::uint64_t>(200, sample_count()); ++n) {
    ModelCase c = sample_model(n);
    if (c.config.head == HeadKind::kLanguage || !possible(c)) continue;
    c.config.loss = "squared-error";
    expect_walked(c, n);
    if (HasFailure()) return;
  }
}

// Answers yes or no, and places, with and without padding among them.
TEST(Walk, OfAnswersAndSpansIsWhatRunsToo) {
  constexpr std::array kLosses = {"binary", "span", "span:masked=true"};
  std::array<std::size_t, 3> met{};
  for (std::uint64_t n = 0; n < std::min<std::uint64_t>(200, sample_count()); ++n) {
    ModelCase c = sample_model(n);
    const bool tags = c.config.head == HeadKind::kTagger;
    if ((!tags && c.config.head != HeadKind::kClassifier) || !possible(c)) continue;
    const std::size_t which = tags ? n % 3 : 0;
    ++met[which];
    c.config.loss = kLosses[which];
    if (which > 0) c.config.classes = 2;
    c.shape.packed = c.shape.padded && which != 1 && n % 2 == 0;
    expect_walked(c, n);
    if (HasFailure()) return;
  }
  for (const std::size_t count : met) EXPECT_GT(count, 2U);
}

// A second head beside that of a language, with targets and without.
TEST(Walk, OfSecondHeadsIsWhatRunsToo) {
  std::size_t met = 0;
  for (std::uint64_t n = 0; n < std::min<std::uint64_t>(200, sample_count()); ++n) {
    ModelCase c = sample_model(n);
    if (c.config.head != HeadKind::kLanguage || c.config.family != Family::kEncoder) continue;
    if (!possible(c)) continue;
    ++met;
    c.config.pair_classes = 2 + n % 3;
    c.shape.packed = c.shape.padded && n % 2 == 0;
    expect_walked(c, n);
    if (HasFailure()) return;
  }
  EXPECT_GT(met, 10U);
}

// Images and sound in the place of tokens.
TEST(Walk, OfStemsIsWhatRunsToo) {
  for (std::uint64_t n = 0; n < (sample_count() + 1) / 2; ++n) {
    const ModelCase c = sample_stem(n);
    if (possible(c)) expect_walked(c, n);
    if (HasFailure()) return;
  }
}

// A student's loss on models that have one output a token, with and without hidden states.
TEST(Walk, OfAStudentIsWhatRunsToo) {
  constexpr std::array kLosses = {"distillation:temperature=3",
                                  "distillation:teacher_weight=0.2,hidden_weight=0.5"};
  std::uint64_t taught = 0;
  for (std::uint64_t n = 0; n < std::min<std::uint64_t>(200, sample_count()); ++n) {
    ModelCase c = sample_model(n);
    if (c.config.head != HeadKind::kLanguage || !possible(c)) continue;
    c.config.loss = kLosses[taught++ % 2];
    expect_walked(c, n);
    if (HasFailure()) return;
  }
  EXPECT_GT(taught, 20U);
}

// What the hand-written formulas said that the walk took the place of.
TEST(Walk, IsWhatItsPredecessorsSaid) {
  const int usual = thread_count();
  set_thread_count(2);  // each thread has scratch of its own
  std::ifstream file(LONGSPAN_SOURCE_DIR "/tests/data/walks/mirrors.tsv");
  std::string line;
  std::size_t compared = 0;
  std::size_t adapted = 0;
  while (std::getline(file, line)) {
    if (line.starts_with('#')) continue;
    std::istringstream numbers(line);
    std::uint64_t n = 0;
    numbers >> n;
    const ModelCase c = sample_model(n);
    // One adapter used to serve the queries, keys and values together.
    if (c.config.lora_rank > 0) {
      ++adapted;
      continue;
    }
    const Model model(c.config);
    const BatchData data(c.config, c.shape, 7);
    const Batch batch = data.view();
    const auto expect = [&](std::uint64_t got, const char* what) {
      std::uint64_t want = 0;
      ASSERT_TRUE(numbers >> want) << line;
      EXPECT_EQ(got, want) << c.name << ": " << what;
    };
    const auto total = [](const CostTable& table) {
      Cost sum;
      for (const auto& [layer, cost] : table) sum += cost;
      return sum;
    };
    expect(model.parameters().count(), "parameters");
    const Cost training = total(model.cost(batch, true));
    for (const Work* work : {&training.forward, &training.backward, &training.update}) {
      expect(work->maccs, "MACCs");
      expect(work->flops(), "FLOPs");
    }
    expect(total(model.cost(batch, false)).forward.flops(), "FLOPs of inference");
    const StepMemory memory = model.walk_training(batch);
    expect(memory.kept, "kept");
    expect(memory.peak, "peak");
    expect(model.inference_bytes(batch), "bytes of inference");
    for (const Recall recall : {Recall::kKeep, Recall::kCompute}) {
      const ForwardLearning rule(model, recall, feedback_of(n), 1);
      StepMemory own;
      const Cost step = total(metered([&] { own = rule.walk(batch); }));
      for (const Work* work : {&step.forward, &step.update}) {
        expect(work->maccs, "MACCs of the rule");
        expect(work->flops(), "FLOPs of the rule");
      }
      expect(own.kept, "kept by the rule");
      expect(own.peak, "peak of the rule");
    }
    ++compared;
    if (HasFailure()) break;
  }
  set_thread_count(usual);
  EXPECT_EQ(compared + adapted, 2000U);
  EXPECT_LT(adapted, 520U);  // one in four has adapters
}

}  // namespace model_walk_test
}  // namespace longspan
