// Whole models in numbers: the engine's counts are its cost functions, the paper's are the
// formulas, and both are put together under a rule by the same function.
#include "longspan/cost/counts.h"

#include <gtest/gtest.h>

#include "longspan/attention/registry.h"
#include "longspan/base/meter.h"
#include "longspan/cost/conventions.h"
#include "longspan/cost/memory_use.h"
#include "longspan/learning/rule.h"
#include "longspan/models/presets.h"
#include "longspan/testing/reference_cases.h"

namespace longspan {
namespace counts_test {

constexpr CostPhase kF = CostPhase::kForward;
constexpr CostPhase kB = CostPhase::kBackward;
constexpr CostPhase kU = CostPhase::kUpdate;

Workload preset_workload(std::string_view name, std::size_t length) {
  const Preset& preset = find_preset(name);
  Workload w;
  w.model = preset.config();
  w.model.attention = "full";
  w.output_layer = preset.output_layer;
  w.length = length;
  if (w.has_both()) w.target_length = length + 1;
  return w;
}

// The paper's architecture, in which the engine does what executed_layers.h says.
Workload papers(Choice<Family> family, RandomKey key) {
  Workload w;
  const auto pick = [&](std::uint64_t at, std::size_t below) {
    return 1 + random_below(key, at, below);
  };
  w.model.family = family;
  w.model.layers = pick(0, 4);
  w.model.decoder_layers = family == Family::kEncoderDecoder ? pick(1, 4) : 0;
  w.model.heads = pick(2, 5);
  w.model.d_model = w.model.heads * pick(3, 9);
  w.model.d_ff = pick(4, 60);
  w.model.vocab = pick(5, 300);
  w.model.attention = "full";
  w.model.wiring = Wiring::kPostNorm;
  w.model.positions = PositionKind::kSinusoidal;
  w.model.attention_bias = false;
  w.model.tied = false;
  w.model.shared_table = false;
  w.batch = pick(6, 3);
  w.length = pick(7, 40);
  if (w.has_both()) w.target_length = pick(8, 40);
  w.model.max_length = 64;
  return w;
}

CountValue times(Integer batch, const CountFormula& formula, const Workload& w) {
  return batch * formula.evaluate(symbol_values(w));
}

class Family : public ::testing::TestWithParam<const char*> {};

TEST_P(Family, CountsAreTheFormulasInThePapersArchitecture) {
  for (RandomKey key = 0; key < 6; ++key) {
    const Workload w = papers(GetParam(), key);
    check(w);
    const Model model(w.model);
    const auto batch = static_cast<Integer>(w.batch);
    for (const LastLayer last :
         {LastLayer::kDifference, LastLayer::kModulatedError, LastLayer::kStandardError}) {
      for (const ErrorSpace space : {ErrorSpace::kVocabulary, ErrorSpace::kModel}) {
        for (const ErrorInjection at : {ErrorInjection::kInput, ErrorInjection::kAfterEmbedding}) {
          const RuleTerms terms{last, space, at};
          for (const CostView view : kCostViews) {
            const ModelFormula formula = formula_of(w, view);
            const ViewCounts counts = view == CostView::kExecuted ? executed_counts(w, model, terms)
                                                                  : paper_counts(w, view, terms);
            ASSERT_EQ(counts.layers.size(), formula.layers.size());
            for (std::size_t i = 0; i < counts.layers.size(); ++i) {
              const LayerCounts& layer = counts.layers[i];
              EXPECT_EQ(layer.name, formula.layers[i].name);
              EXPECT_EQ(layer.count, formula.layers[i].count.evaluate(symbol_values(w)));
              EXPECT_EQ(layer.forward, times(batch, formula.layers[i].total(kF), w)) << layer.name;
              EXPECT_EQ(layer.backward, times(batch, formula.layers[i].total(kB), w)) << layer.name;
              EXPECT_EQ(layer.update, times(batch, formula.layers[i].total(kU), w)) << layer.name;
            }
            for (const LearningRule rule : kPaperRules) {
              const RuleFormula expected = rule_formula(formula, rule, terms);
              for (const CostPhase phase : kCostPhases) {
                EXPECT_EQ(counts.rule(rule).phase(phase), times(batch, expected.phase(phase), w))
                    << name_of(view) << ' ' << name_of(rule) << ' ' << name_of(phase);
              }
              EXPECT_EQ(counts.rule(rule).total(), times(batch, expected.total(), w));
            }
          }
        }
      }
    }
    EXPECT_EQ(count_parameters(w, model).total,
              formula_of(w, CostView::kPrinted).parameters().evaluate(symbol_values(w)));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Family,
                         ::testing::Values("encoder", "decoder", "encoder-decoder"));

bool can_be_built(const Workload& w) {
  try {
    check(w);
    const Model model(w.model);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Every reference model, with every mechanism that can do it: nothing is lost between Model::cost
// and the report.
TEST(Executed, SumsAreThoseOfTheModel) {
  int compared = 0;
  for (const Mechanism& mechanism : mechanisms()) {
    for (const testing::ModelCase& c : testing::model_cases()) {
      Workload w;
      w.model = c.config;
      w.model.attention = std::string(mechanism.name);
      w.batch = c.shape.batch;
      w.length = w.has_both() ? c.shape.source_length : c.shape.length;
      w.target_length = w.has_both() ? c.shape.length : 0;
      if (!can_be_built(w)) continue;
      const Model model(w.model);
      const ViewCounts counts = executed_counts(w, model);
      Cost sum;
      for (const auto& [layer, cost] : model.cost(w.shape(), true)) sum += cost;
      const RuleCounts& bp = counts.rule(LearningRule::kBackprop);
      EXPECT_EQ(bp.phase(kF).flops, static_cast<Integer>(sum.forward.flops())) << c.name;
      EXPECT_EQ(bp.phase(kB).flops, static_cast<Integer>(sum.backward.flops())) << c.name;
      EXPECT_EQ(bp.phase(kU).flops, static_cast<Integer>(sum.update.flops())) << c.name;
      EXPECT_EQ(bp.total().maccs,
                static_cast<Integer>((sum.forward + sum.backward + sum.update).maccs))
          << c.name;
      const ParameterCounts parameters = count_parameters(w, model);
      EXPECT_EQ(parameters.trained, static_cast<Integer>(model.parameters().count())) << c.name;
      Integer by_layer = 0;
      for (const ParameterCounts::Layer& layer : parameters.layers) by_layer += layer.parameters;
      EXPECT_EQ(by_layer, parameters.total);
      const MemoryUse use = memory_use(w, model, parameters, {"fp32", 4}, OptimizerKind::kAdam);
      EXPECT_EQ(use.peak, static_cast<Integer>(model.training_bytes(w.shape()))) << c.name;
      EXPECT_EQ(use.activations + use.workspace, use.peak) << c.name;
      // Drawn features take memory, and no gradient.
      EXPECT_EQ(use.parameters + use.drawn, 4 * static_cast<Integer>(model.parameters().total()))
          << c.name;
      EXPECT_EQ(use.gradients, 4 * parameters.trained) << c.name;
      EXPECT_EQ(use.optimizer, 8 * parameters.trained) << c.name;
      ++compared;
    }
  }
  EXPECT_GT(compared, 30);
}

// A rule beyond the paper: what is counted without memory is what its step does, and the arena is
// the one that it takes.
TEST(Walked, IsWhatTheRuleDoes) {
  int walked = 0;
  for (const testing::ModelCase& c : testing::model_cases()) {
    Workload w;
    w.model = c.config;
    w.batch = c.shape.batch;
    w.length = w.has_both() ? c.shape.source_length : c.shape.length;
    w.target_length = w.has_both() ? c.shape.length : 0;
    if (c.shape.padded || c.shape.typed || !can_be_built(w)) continue;
    Model model(w.model);
    model.allocate(1);
    testing::BatchData data(w.model, c.shape, 5);
    for (std::int32_t& target : data.targets) target = std::max(target, 0);  // none is ignored
    for (const LearningRule rule : {LearningRule::kFeedback, LearningRule::kDirect}) {
      if (rule == LearningRule::kDirect &&
          (w.has_both() || w.model.wiring == Wiring::kReversible)) {
        EXPECT_THROW(walked_counts(w, rule), Error) << c.name;
        continue;
      }
      SCOPED_TRACE(c.name + " " + std::string(name_of(rule)));
      const RuleCounts counts = walked_counts(w, rule);
      const std::unique_ptr<Rule> engine = make_rule(name_of(rule), model);
      engine->prepare(data.view());
      Meter meter;
      {
        const Meter::Use use(meter);
        engine->accumulate(data.view(), 1, 1.0F);
      }
      const auto flops = [&](Phase phase) {
        return static_cast<Integer>(meter.total(phase).flops());
      };
      EXPECT_EQ(counts.phase(kF).flops, flops(Phase::kForward));
      EXPECT_EQ(counts.phase(kB).flops, flops(Phase::kBackward));
      EXPECT_EQ(counts.phase(kU).flops + counts.phase(CostPhase::kRuleOverhead).flops,
                flops(Phase::kUpdate));
      const bool direct = rule == LearningRule::kDirect;
      EXPECT_EQ(counts.phase(CostPhase::kRuleOverhead).maccs > 0, direct);
      const MemoryUse use =
          memory_use(w, model, count_parameters(w, model), {"fp32", 4}, OptimizerKind::kSgd, rule);
      EXPECT_EQ(use.peak, static_cast<Integer>(model.arena().peak()));
      EXPECT_EQ(use.feedback, static_cast<Integer>(sizeof(float) * engine->own_floats()));
      ++walked;
    }
  }
  EXPECT_GT(walked, 10);
}

TEST(Parameters, OfPublishedEncoders) {
  for (const auto& [name, count] : {std::pair<const char*, Integer>{"bert-base", 109482240},
                                    {"bert-large", 335141888},
                                    {"distilbert", 66362880}}) {
    const Workload w = preset_workload(name, 128);
    EXPECT_EQ(count_parameters(w, Model(w.model)).total, count) << name;
  }
}

TEST(Executed, PublishedProducts) {
  for (const auto& [name, maccs] :
       {std::pair<const char*, Integer>{"bert-base", 11174215680}, {"llama-7b", 850000871424}}) {
    const Workload w = preset_workload(name, 128);
    const ViewCounts counts = executed_counts(w, Model(w.model));
    EXPECT_EQ(counts.once(kF, false).maccs, maccs) << name;
  }
}

TEST(Memory, CacheOfLlama2) {
  const Workload w = preset_workload("llama-2-7b", 4096);
  const Model model(w.model);
  const ParameterCounts parameters = count_parameters(w, model);
  const auto cache = [&](std::string_view type) {
    return *memory_use(w, model, parameters, element_type(type), OptimizerKind::kAdam).cache;
  };
  EXPECT_EQ(cache("fp16"), Integer{2} << 30);
  EXPECT_EQ(cache("fp32"), Integer{4} << 30);
}

// The classifier's own numbers: one row a sequence, its classes instead of the vocabulary.
TEST(Classifier, EndsInItsClasses) {
  Workload w = papers("encoder", 3);
  w.model.head = HeadKind::kClassifier;
  w.model.classes = 7;
  const auto rows = static_cast<Integer>(w.batch);
  const Integer product = rows * static_cast<Integer>(w.model.d_model) * 7;
  const LayerCounts printed = paper_counts(w, CostView::kPrinted).layers.back();
  EXPECT_EQ(printed.name, "softmax");
  EXPECT_EQ(printed.forward, (CountValue{product, 2 * product + 5 * rows * 7}));
  const Model model(w.model);
  EXPECT_EQ(executed_counts(w, model).layers.back().forward, printed.forward);
  w.output_layer = false;
  EXPECT_EQ(paper_counts(w, CostView::kPrinted).layers.back().name, "ffn");
  EXPECT_NE(executed_counts(w, model).layers.back().name, "softmax");
}

TEST(Workloads, AreRefusedInOneSentence) {
  const auto error_of = [](auto change) {
    Workload w = papers("encoder", 1);
    change(w);
    try {
      check(w);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(error_of([](Workload&) {}), "");
  EXPECT_EQ(error_of([](Workload& w) { w.length = 0; }),
            "[cost] length is 0; need 1 to 4294967296");
  EXPECT_EQ(error_of([](Workload& w) { w.batch = kLargestBatch + 1; }),
            "[cost] batch is 1048577; need 1 to 1048576");
  EXPECT_EQ(error_of([](Workload& w) { w.model.layers = 5000; }),
            "[cost] layers is 5000; need 1 to 4096");
  EXPECT_NE(error_of([](Workload& w) { w.target_length = w.length + 1; }).find("need an encoder"),
            std::string::npos);
  EXPECT_NE(error_of([](Workload& w) {
              w.length = kLargestLength;
              w.batch = kLargestBatch;
            }).find("counters"),
            std::string::npos);
  EXPECT_NE(error_of([](Workload& w) {
              w.lengths = {1, 2, 3, 4, 5};
            }).find("need one each"),
            std::string::npos);
}

// Columns are sums, and the tools that count products count those of the engine.
TEST(Conventions, LinesSumToBothSides) {
  for (const Convention& tool : conventions()) {
    for (const Preset& preset : presets()) {
      if (preset.name == "gpt3-175b") continue;
      for (const char* attention : {"full", "flash"}) {
        Workload w = preset_workload(preset.name, 64);
        w.model.attention = attention;
        const Model model(w.model);
        const ConventionReport report = report_as(tool.name, w, model);
        const ViewCounts counts = executed_counts(w, model);
        const CountValue expected =
            report.training ? counts.rule(LearningRule::kBackprop).total() : counts.once(kF, false);
        EXPECT_EQ(report.executed(), expected.flops) << tool.name << ' ' << preset.name;
        if (tool.name == "ptflops" && std::string_view(attention) == "full") {
          EXPECT_EQ(report.reported(), expected.maccs) << preset.name;
        }
        if (tool.name == "torch" && std::string_view(attention) == "full") {
          EXPECT_EQ(report.reported(), 2 * expected.maccs) << preset.name;
        }
      }
    }
  }
}

TEST(Conventions, ParametersTimesTokens) {
  const Workload w = preset_workload("gpt3-175b", 2048);
  const Model model(w.model);
  const Integer sixth = Integer{174604259328} * 2048;
  EXPECT_EQ(report_as("6nd", w, model).reported(), 6 * sixth);
  EXPECT_EQ(report_as("palm", w, model).reported(),
            6 * sixth + Integer{12} * 96 * 12288 * 2048 * 2048);
  EXPECT_THROW(report_as("fvcor", w, model), Error);
}

// Per element by hand: one block, 2 heads, M = N = 3.
TEST(Conventions, PriceElements) {
  Workload w = papers("encoder", 1);
  w.model.layers = 1;
  w.model.d_model = 4;
  w.model.heads = 2;
  w.model.d_ff = 5;
  w.model.vocab = 7;
  w.batch = 1;
  w.length = 3;
  const Model model(w.model);
  const Integer weights = 3 * (4 * 4 * 4 + 2 * 4 * 5);
  const Integer attention = 2 * 3 * 3 * 4;
  const Integer output = 3 * 4 * 7;
  const Integer norms = 2 * 3 * 4;
  const Integer scores = 2 * 3 * 3;
  const Integer forward = weights + attention + output;
  EXPECT_EQ(report_as("fvcore", w, model).reported(), forward + 5 * norms);
  EXPECT_EQ(report_as("thop", w, model).reported(),
            weights + output + 4 * norms + 3 * scores - 2 * 3);
  EXPECT_EQ(report_as("deepspeed", w, model).reported(),
            3 * (2 * forward + scores + 5 * norms + 3 * 5));
  EXPECT_EQ(report_as("llm-viewer", w, model).reported(),
            2 * forward + 5 * scores + 7 * norms + 2 * 3 * 5);
}

}  // namespace counts_test
}  // namespace longspan
