// Whole models under every learning rule: a worked example cell by cell, the switches, crossovers
// and published totals. model_formula_test.cc has random shapes.
#include "longspan/cost/rules.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longspan/cost/crossover.h"

namespace longspan {
namespace rules_test {

using symbols::d, symbols::f, symbols::h, symbols::L, symbols::M, symbols::n_dec, symbols::n_enc,
    symbols::N, symbols::p, symbols::v;
using enum CostView;
using enum LearningRule;

constexpr CostPhase kF = CostPhase::kForward;
constexpr CostPhase kB = CostPhase::kBackward;
constexpr CostPhase kU = CostPhase::kUpdate;
constexpr CostPhase kP = CostPhase::kErrorProjection;
constexpr CostPhase kO = CostPhase::kRuleOverhead;

ModelFormula encoder(CostView view) { return model_formula({.view = view}); }

CountFormula step(CostView view, LearningRule rule, const RuleTerms& terms = {}) {
  return rule_formula(encoder(view), rule, terms).total();
}

// ---- one encoder block: v=1000, d=64, h=4, f=256, M=N=128 ----

const SymbolValues kBlock = {{v, 1000}, {d, 64}, {h, 4}, {f, 256}, {N, 128}, {L, 1}};

struct Row {
  std::string name;
  CountValue forward, backward, update;
};

void expect_rows(CostView view, const std::vector<Row>& rows) {
  const ModelFormula model = encoder(view);
  ASSERT_EQ(model.layers.size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ModelLayer& layer = model.layers[i];
    EXPECT_EQ(layer.name, rows[i].name);
    EXPECT_EQ(layer.total(kF).evaluate(kBlock), rows[i].forward) << layer.name;
    EXPECT_EQ(layer.total(kB).evaluate(kBlock), rows[i].backward) << layer.name;
    EXPECT_EQ(layer.total(kU).evaluate(kBlock), rows[i].update) << layer.name;
  }
}

void expect_totals(CostView view, const Row& sum, const std::array<CountValue, 3>& rules) {
  const ModelFormula model = encoder(view);
  EXPECT_EQ(model.total(kF).evaluate(kBlock), sum.forward);
  EXPECT_EQ(model.total(kB).evaluate(kBlock), sum.backward);
  EXPECT_EQ(model.total(kU).evaluate(kBlock), sum.update);
  for (std::size_t i = 0; i < rules.size(); ++i) {
    EXPECT_EQ(step(view, kLearningRules[i]).evaluate(kBlock), rules[i]);
  }
}

TEST(EncoderBlock, Printed) {
  expect_rows(kPrinted,
              {{"embedding", {8192000, 16384000}, {0, 0}, {8192000, 16384000}},
               {"mha", {4194304, 8781824}, {14680064, 29425664}, {2097152, 4194304}},
               {"add_norm", {0, 147456}, {1048576, 11567104}, {16384, 49152}},
               {"ffn", {4194304, 8691712}, {4194304, 8814592}, {4194304, 8388608}},
               {"softmax", {8192000, 17024000}, {8192000, 16384000}, {8192000, 16384000}}});
  expect_totals(kPrinted, {"sum", {24772608, 51028992}, {28114944, 66191360}, {22691840, 45400064}},
                {{{67387392, 146236416}, {72237056, 147458048}, {97009664, 198487040}}});
}

TEST(EncoderBlock, Corrected) {
  expect_rows(kCorrected,
              {{"embedding", {8192000, 16384000}, {0, 0}, {8192000, 16384000}},
               {"mha", {4194304, 8781824}, {14680064, 37814272}, {2097152, 4194304}},
               {"add_norm", {0, 147456}, {1048576, 11567104}, {16384, 49152}},
               {"ffn", {4194304, 8691712}, {4194304, 8814592}, {4194304, 8388608}},
               {"softmax", {8192000, 17024000}, {8192000, 16384000}, {8192000, 16384000}}});
  expect_totals(kCorrected,
                {"sum", {24772608, 51028992}, {28114944, 74579968}, {22691840, 45400064}},
                {{{67387392, 154625024}, {72237056, 147458048}, {97009664, 198487040}}});
}

TEST(EncoderBlock, Executed) {
  expect_rows(kExecuted,
              {{"embedding", {0, 8192}, {0, 0}, {0, 8192}},
               {"mha", {4194304, 8724480}, {6291456, 12853248}, {2097152, 4194304}},
               {"add_norm", {0, 132352}, {0, 147968}, {0, 49152}},
               {"ffn", {4194304, 8691712}, {4194304, 8847360}, {4194304, 8429568}},
               {"softmax", {8192000, 17024000}, {8192000, 16384128}, {8192000, 16384000}}});
  // The example leaves out what the last layer's own signal costs: M·v by difference.
  const Integer signal = 128 * 1000;
  expect_totals(
      kExecuted, {"sum", {16580608, 34580736}, {18677760, 38232704}, {14483456, 29065216}},
      {{{49741824, 101878656}, {64028672, 131093120 + signal}, {80609280, 165673856 + signal}}});
  const RuleFormula pepita = rule_formula(encoder(kExecuted), kPepita);
  EXPECT_EQ(pepita.phase(kO).evaluate(kBlock), (CountValue{16384000, 32866432 + signal}));
  EXPECT_EQ(step(kExecuted, kPepita, {.last_layer = LastLayer::kModulatedError}).evaluate(kBlock),
            (CountValue{64028672, 131093120 + 128}));
  EXPECT_EQ(step(kExecuted, kPepita, {.last_layer = LastLayer::kStandardError}).evaluate(kBlock),
            (CountValue{64028672 - 8192000, 131093120 - 17024000}));
}

TEST(EncoderBlock, Parameters) {
  EXPECT_EQ(encoder(kPrinted).parameters().evaluate(kBlock), 177728);
  EXPECT_EQ(encoder(kExecuted).parameters(), encoder(kPrinted).parameters());
  const CountFormula sgd = optimizer_formula(OptimizerKind::kSgd, encoder(kPrinted).parameters());
  EXPECT_EQ(sgd.evaluate(kBlock), (CountValue{0, 355456}));
  EXPECT_EQ(optimizer_formula(OptimizerKind::kMomentum, d).flops, 4 * d);
  EXPECT_EQ(optimizer_formula(OptimizerKind::kAdam, d).flops, 12 * d);
}

// The paper writes its example with M and N kept apart.
TEST(EncoderBlock, MaccsAreThoseOfTheExemplaryApplication) {
  CountFormula forward, backward, update;
  for (const LayerFormula& layer :
       {paper_embedding(kPrinted, M), paper_attention(kPrinted, AttentionRole::kSelf, M, N),
        paper_add_norm(kPrinted, M), paper_feed_forward(kPrinted, M), paper_add_norm(kPrinted, M),
        paper_softmax_layer(kPrinted, M)}) {
    forward += layer.total(kF);
    backward += layer.total(kB);
    update += layer.total(kU);
  }
  EXPECT_EQ(forward.maccs,
            M * v * d + 2 * M * d * d + 2 * M * N * d + 2 * N * d * d + 2 * M * d * f + M * d * v);
  EXPECT_EQ(backward.maccs, 2 * M * d * d + 2 * N * d * d + 4 * M * N * d + M * N * M * h +
                                M * d * d + 2 * M * d * f + M * d * d + d * M * v);
  EXPECT_EQ(update.maccs,
            M * v * d + 2 * M * d * d + 2 * N * d * d + M * d + 2 * M * d * f + M * d + M * v * d);
}

// ---- switches ----

TEST(Rules, ProjectTheErrorForEncoderDecodersOnly) {
  for (const CostView view : kCostViews) {
    for (const LearningRule rule : {kPepita, kMempepita}) {
      for (const ModelFamily family : {ModelFamily::kEncoder, ModelFamily::kDecoder}) {
        const ModelFormula model = model_formula({.view = view, .family = family});
        EXPECT_TRUE(rule_formula(model, rule).phase(kP).maccs.is_zero());
        EXPECT_TRUE(rule_formula(model, rule).projections.empty());
      }
    }
    const ModelFormula pair = model_formula({.view = view, .family = ModelFamily::kEncoderDecoder});
    EXPECT_TRUE(rule_formula(pair, kBackprop).phase(kP).flops.is_zero());
    const int products = view == kExecuted ? 1 : 2;
    EXPECT_EQ(rule_formula(pair, kPepita).phase(kP).maccs, products * N * M * v);
    EXPECT_EQ(rule_formula(pair, kPepita, {.error_space = ErrorSpace::kModel}).phase(kP),
              matmuls(2 * N * M * d, 6 * N * M));
  }
}

TEST(Rules, AnErrorInModelSpaceKeepsTheEncodersEmbeddingSparse) {
  const ModelFormula pair =
      model_formula({.view = kExecuted, .family = ModelFamily::kEncoderDecoder});
  const CountFormula vocabulary = rule_formula(pair, kPepita).phase(kO);
  const CountFormula model =
      rule_formula(pair, kPepita, {.error_space = ErrorSpace::kModel}).phase(kO);
  EXPECT_EQ(vocabulary.maccs, 2 * N * v * d + 2 * M * v * d);
  EXPECT_EQ(model.maccs, 2 * M * v * d);
  EXPECT_EQ(vocabulary.flops - model.flops, 4 * N * v * d - N * d - M * d);
}

TEST(Rules, BackpropDiscardsThePapersEmbeddingUpdate) {
  for (const CostView view : {kPrinted, kCorrected}) {
    const ModelFormula model = encoder(view);
    EXPECT_EQ(model.total(kU) - rule_formula(model, kBackprop).phase(kU), matmuls(N * v * d));
    EXPECT_EQ(rule_formula(model, kPepita).phase(kU), model.total(kU));
    EXPECT_TRUE(rule_formula(model, kPepita).overhead.empty());
  }
  EXPECT_EQ(rule_formula(encoder(kExecuted), kBackprop).phase(kU), encoder(kExecuted).total(kU));
}

TEST(Rules, OverheadOfABlockIsItsActivationDifferences) {
  const RuleFormula pepita = rule_formula(encoder(kExecuted), kPepita);
  CountFormula sum;
  for (const FormulaLine& line : pepita.overhead) sum += line.count;
  EXPECT_EQ(sum, pepita.phase(kO));
  EXPECT_EQ(sum.flops.coefficient(L, 1), 7 * N * d + N * f);
  EXPECT_EQ(sum.flops.coefficient(L, 0), 4 * N * v * d + N * d + N * v + N);
}

TEST(Rules, NamesAndPasses) {
  EXPECT_EQ(name_of(kBackprop), "bp");
  EXPECT_EQ(name_of(kMempepita), "mempepita");
  EXPECT_EQ(passes_of(kPepita).forward, 2);
  EXPECT_EQ(passes_of(kMempepita).forward, 3);
  EXPECT_EQ(passes_of(kBackprop).error_projection, 0);
  const ModelFormula pair = model_formula({.family = ModelFamily::kEncoderDecoder});
  std::vector<std::string> names;
  for (const ModelLayer& layer : pair.layers) {
    names.push_back(layer.count.text() + " " + layer.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"1 encoder_embedding", "n_enc encoder_mha",
                                             "2·n_enc encoder_add_norm", "n_enc encoder_ffn",
                                             "1 decoder_embedding", "n_dec decoder_masked_mha",
                                             "n_dec decoder_cross_mha", "3·n_dec decoder_add_norm",
                                             "n_dec decoder_ffn", "1 softmax"}));
}

// ---- shares that the fictional product of the embedding leads to, printed ----

struct Shares {
  std::string embedding;  // of F
  std::string excess;     // (B + U)/F under backpropagation
  std::string memory;     // MEMPEPITA ÷ PEPITA
};

Shares shares_of(const ModelFormula& model, const SymbolValues& at) {
  const auto maccs = [&](const CountFormula& count) {
    return static_cast<double>(count.maccs.evaluate(at));
  };
  double embedding = 0;
  for (const ModelLayer& layer : model.layers) {
    if (layer.formula.kind == LayerKind::kEmbedding) embedding += maccs(layer.total(kF));
  }
  const RuleFormula bp = rule_formula(model, kBackprop);
  return {fmt::format("{:.0f} %", 100 * embedding / maccs(model.total(kF))),
          fmt::format("{:.2f}", (maccs(bp.phase(kB)) + maccs(bp.phase(kU))) / maccs(bp.phase(kF))),
          fmt::format("{:.3f}", maccs(rule_formula(model, kMempepita).total()) /
                                    maccs(rule_formula(model, kPepita).total()))};
}

void expect_shares(const Shares& is, const Shares& should) {
  EXPECT_EQ(is.embedding, should.embedding);
  EXPECT_EQ(is.excess, should.excess);
  EXPECT_EQ(is.memory, should.memory);
}

TEST(Shares, OfThreeModels) {
  expect_shares(shares_of(encoder(kPrinted), kBlock), {"33 %", "1.72", "1.343"});
  expect_shares(
      shares_of(
          model_formula({.family = ModelFamily::kEncoderDecoder}),
          {{n_enc, 6}, {n_dec, 6}, {d, 512}, {h, 8}, {f, 2048}, {v, 37000}, {M, 128}, {N, 128}}),
      {"37 %", "1.37", "1.326"});
  expect_shares(
      shares_of(encoder(kPrinted), {{L, 6}, {d, 768}, {h, 12}, {f, 3072}, {v, 30522}, {N, 512}}),
      {"25 %", "1.78", "1.339"});
}

// ---- when is PEPITA cheaper? DistilBERT, MACCs ----

const SymbolValues kDistilbert = {{L, 6}, {d, 768}, {h, 12}, {f, 3072}, {v, 30522}};
constexpr RuleTerms kSkipLast{.last_layer = LastLayer::kStandardError};
constexpr RuleTerms kInjectLater{.last_layer = LastLayer::kStandardError,
                                 .injection = ErrorInjection::kAfterEmbedding};

Crossover pepita_cheaper(CostView view, const RuleTerms& terms) {
  return crossover(step(view, kBackprop).maccs, step(view, kPepita, terms).maccs, N, kDistilbert);
}

TEST(PepitaIsCheaper, PrintedFromAQuadraticCondition) {
  const Crossover at = pepita_cheaper(kPrinted, {});
  EXPECT_EQ(at.condition.kind, Condition::Kind::kOpen);
  EXPECT_EQ(at.condition.left, L * (2 * N * d + N * N * h + 2 * d * d));
  EXPECT_EQ(at.condition.right, 2 * v * d);
  EXPECT_EQ(at.from.value(), 683);
  EXPECT_EQ(at.where.size(), 1U);
}

TEST(PepitaIsCheaper, ExecutedFromTheVocabularyOverTheDepth) {
  const Crossover all = pepita_cheaper(kExecuted, {});
  EXPECT_EQ(all.condition.text, "N > v/L");
  EXPECT_EQ(all.condition.latex, "N > \\frac{v}{L}");
  EXPECT_EQ(all.from.value(), 5088);  // N > 5087
  const Crossover skip = pepita_cheaper(kExecuted, kSkipLast);
  EXPECT_EQ(skip.condition.text, "N > v/(2·L)");
  EXPECT_EQ(skip.from.value(), 2544);  // N > 2543
  const Crossover later = pepita_cheaper(kExecuted, kInjectLater);
  EXPECT_EQ(later.condition.kind, Condition::Kind::kAlways);
  EXPECT_EQ(later.from.value(), 1);
  EXPECT_EQ(step(kExecuted, kBackprop).maccs - step(kExecuted, kPepita, kInjectLater).maccs,
            2 * L * N * N * d);
}

Integer distilbert(const CountFormula& count, Integer length) {
  SymbolValues at = kDistilbert;
  at[N] = length;
  return count.maccs.evaluate(at);
}

TEST(PepitaIsCheaper, RatiosOfDistilbert) {
  struct Line {
    int length;
    double printed, executed, mempepita;
  };
  const auto ratio = [](CostView view, LearningRule rule, Integer length) {
    return static_cast<double>(distilbert(step(view, rule), length)) /
           static_cast<double>(distilbert(step(view, kBackprop), length));
  };
  for (const Line& line : {Line{128, 1.161, 1.227, 1.560}, Line{512, 1.062, 1.199, 1.532},
                           Line{1024, 0.864, 1.166, 1.499}, Line{2048, 0.521, 1.110, 1.443},
                           Line{4096, 0.222, 1.029, 1.363}, Line{16384, 0.0285, 0.840, 1.173}}) {
    EXPECT_NEAR(ratio(kPrinted, kPepita, line.length), line.printed, 0.0005);
    EXPECT_NEAR(ratio(kExecuted, kPepita, line.length), line.executed, 0.0005);
    EXPECT_NEAR(ratio(kExecuted, kMempepita, line.length), line.mempepita, 0.0005);
  }
  EXPECT_NEAR(ratio(kPrinted, kPepita, 1 << 30), 0.0, 1e-6);
  EXPECT_NEAR(ratio(kExecuted, kPepita, 1 << 30), 2.0 / 3, 1e-4);
  EXPECT_NEAR(ratio(kExecuted, kMempepita, 1 << 30), 1.0, 1e-4);
}

TEST(PepitaIsCheaper, TotalsOfDistilbertAt512) {
  EXPECT_EQ(distilbert(step(kExecuted, kPepita, kSkipLast), 512), 118068609024);
  EXPECT_EQ(distilbert(step(kExecuted, kMempepita, kSkipLast), 512), 142227800064);
  EXPECT_EQ(distilbert(step(kExecuted, kPepita, kInjectLater), 512), 106066870272);
  EXPECT_EQ(distilbert(step(kExecuted, kMempepita, kInjectLater), 512), 130226061312);
}

// ---- GPT-3 on 300 G tokens: 146,484,375 sequences of 2048 ----

constexpr Integer kTokens = 300000000000;
const SymbolValues kGpt3 = {{L, 96},   {d, 12288},          {h, 96}, {f, 49152}, {v, 50257},
                            {N, 2048}, {p, 2048 * 2049 / 2}};

Integer gpt3(const Polynomial& per_sequence) {
  return (per_sequence * (kTokens / 2048)).evaluate(kGpt3);
}

struct Published {
  ModelTerms terms;
  std::string flops;  // in 1e23
  int petaflop_days;  // of 8.64e19 FLOPs
};

TEST(Gpt3, TotalsOfTheViews) {
  const ModelFamily family = ModelFamily::kDecoder;
  const ModelTerms executed{.view = kExecuted, .family = family};
  ModelTerms causal = executed;
  causal.masked_pairs = p;
  ModelTerms flash = causal;
  flash.recompute_scores = true;
  for (const Published& line :
       {Published{{.view = kPrinted, .family = family}, "4.422", 5118},
        Published{{.view = kCorrected, .family = family}, "4.538", 5253},
        Published{executed, "3.230", 3739}, Published{causal, "3.186", 3688},
        Published{flash, "3.194", 3696}}) {
    const RuleFormula step_of = rule_formula(model_formula(line.terms), kBackprop);
    const auto flops = static_cast<double>(gpt3(step_of.total().flops));
    EXPECT_EQ(fmt::format("{:.3f}", flops / 1e23), line.flops);
    EXPECT_EQ(std::lround(flops / 8.64e19), line.petaflop_days);
  }
  // Every block's forward pass again: checkpointed activations.
  const ModelFormula model = model_formula(executed);
  const Polynomial twice = rule_formula(model, kBackprop).total().flops + model.total(kF).flops;
  EXPECT_EQ(fmt::format("{:.3f}", static_cast<double>(gpt3(twice)) / 1e23), "4.307");
}

// What the Jacobians alone cost, in FLOPs per token.
TEST(Gpt3, JacobiansOfThePaper) {
  const ModelFormula model = model_formula({.view = kCorrected, .family = ModelFamily::kDecoder});
  Polynomial norm, softmax;
  for (const ModelLayer& layer : model.layers) {
    const Polynomial backward = layer.total(kB).flops;
    if (layer.formula.kind == LayerKind::kAddNorm) norm += backward - 4 * L * N * d;
    if (layer.formula.kind == LayerKind::kAttention)
      softmax += backward.coefficient(N, 3) * N * N * N;
  }
  const auto per_token = [](const Polynomial& flops) {
    return static_cast<double>(flops.evaluate(kGpt3)) / 2048;
  };
  EXPECT_EQ(fmt::format("{:.2e}", per_token(norm)), "3.19e+11");
  EXPECT_EQ(fmt::format("{:.2e}", per_token(softmax)), "1.16e+11");
}

TEST(Gpt3, OverflowIsAnErrorAndNotAWrongNumber) {
  const Polynomial flops = step(kPrinted, kBackprop).flops;
  EXPECT_THROW((flops * kTokens * kTokens * kTokens).evaluate(kGpt3), Error);
}

}  // namespace rules_test
}  // namespace longspan
