// The layers against the same formulas written once more as plain integer arithmetic, from the
// paper's equations, on random shapes with M ≠ N.
#include "longspan/cost/paper.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "longspan/cost/discrepancies.h"
#include "longspan/cost/executed_layers.h"

namespace longspan {
namespace paper_test {

struct Shape {
  Integer M, N, d, h, f, v;

  SymbolValues values() const {
    return {{symbols::M, M}, {symbols::N, N}, {symbols::d, d},
            {symbols::h, h}, {symbols::f, f}, {symbols::v, v}};
  }
};

std::vector<Shape> random_shapes() {
  std::mt19937_64 random(3);
  const auto pick = [&](int low, int high) {
    return Integer{std::uniform_int_distribution<int>(low, high)(random)};
  };
  std::vector<Shape> shapes = {{1, 1, 1, 1, 1, 1}, {4, 7, 6, 3, 24, 11}};
  for (int i = 0; i < 300; ++i) {
    const Integer h = pick(1, 16);
    shapes.push_back(
        {pick(1, 4096), pick(1, 4096), h * pick(1, 128), h, pick(1, 8192), pick(2, 250000)});
  }
  return shapes;
}

CountValue at(const LayerFormula& layer, CostPhase phase, const Shape& s) {
  return layer.total(phase).evaluate(s.values());
}

constexpr CostPhase kF = CostPhase::kForward;
constexpr CostPhase kB = CostPhase::kBackward;
constexpr CostPhase kU = CostPhase::kUpdate;

TEST(Paper, AttentionIsWhatTheBoxesPrint) {
  const LayerFormula layer =
      paper_attention(CostView::kPrinted, AttentionRole::kCross, symbols::M, symbols::N);
  for (const Shape& s : random_shapes()) {
    const auto [M, N, d, h, f, v] = s;
    EXPECT_EQ(at(layer, kF, s),
              (CountValue{2 * M * d * d + 2 * M * N * d + 2 * N * d * d,
                          4 * M * d * d + 4 * M * N * d + 4 * N * d * d + 6 * M * N * h}));
    EXPECT_EQ(at(layer, kB, s),
              (CountValue{
                  2 * M * d * d + 2 * N * d * d + 4 * M * N * d + M * N * M * h,
                  4 * M * d * d + 4 * N * d * d + 8 * M * N * d + 2 * M * N * M * h + M * N * h}));
    EXPECT_EQ(at(layer, kU, s),
              (CountValue{2 * M * d * d + 2 * N * d * d, 4 * M * d * d + 4 * N * d * d}));
  }
}

// Equations (2) to (37) once more, head by head, as the paper derives them before it sums.
TEST(Paper, CorrectedAttentionIsTheSumOfItsEquations) {
  const LayerFormula layer =
      paper_attention(CostView::kCorrected, AttentionRole::kCross, symbols::M, symbols::N);
  for (const Shape& s : random_shapes()) {
    const auto [M, N, d, h, f, v] = s;
    const Integer d_k = d / h;
    CountValue forward{}, backward{}, update{};
    const auto gemm = [](CountValue& to, Integer rows, Integer inner, Integer columns) {
      to.maccs += rows * inner * columns;
      to.flops += 2 * rows * inner * columns;
    };
    gemm(forward, M, d, d);
    gemm(backward, M, d, d);
    gemm(update, d, M, d);
    for (Integer head = 0; head < h; ++head) {
      gemm(forward, M, d, d_k);  // Q
      gemm(forward, N, d, d_k);  // K
      gemm(forward, N, d, d_k);  // V
      gemm(forward, M, d_k, N);
      gemm(forward, M, N, d_k);
      forward.flops += 5 * M * N + M * N;
      gemm(backward, N, M, d_k);    // (24)
      gemm(backward, N, d_k, d);    // (26)
      gemm(update, d, N, d_k);      // (27)
      backward.flops += M * N * N;  // (28)
      gemm(backward, M, d_k, N);    // (29): ∂Attention·Vᵀ
      gemm(backward, M, N, N);      // (29): M rows of N by N×N
      backward.flops += M * N;      // (29): 1/√d_k
      gemm(backward, M, N, d_k);    // (30)
      gemm(backward, M, d_k, d);    // (32)
      gemm(update, d, M, d_k);      // (33)
      gemm(backward, N, M, d_k);    // (34)
      gemm(backward, N, d_k, d);    // (36)
      gemm(update, d, N, d_k);      // (37)
    }
    EXPECT_EQ(at(layer, kF, s), forward);
    EXPECT_EQ(at(layer, kB, s), backward);
    EXPECT_EQ(at(layer, kU, s), update);
  }
}

TEST(Paper, OtherLayersAreWhatTheBoxesPrint) {
  for (const CostView view : {CostView::kPrinted, CostView::kCorrected}) {
    const LayerFormula embedding = paper_embedding(view, symbols::M);
    const LayerFormula ffn = paper_feed_forward(view, symbols::M);
    const LayerFormula norm = paper_add_norm(view, symbols::M);
    const LayerFormula softmax = paper_softmax_layer(view, symbols::M);
    for (const Shape& s : random_shapes()) {
      const auto [M, N, d, h, f, v] = s;
      EXPECT_EQ(at(embedding, kF, s), (CountValue{M * v * d, 2 * M * v * d}));
      EXPECT_EQ(at(embedding, kB, s), (CountValue{0, 0}));
      EXPECT_EQ(at(embedding, kU, s), (CountValue{M * v * d, 2 * M * v * d}));
      EXPECT_EQ(at(ffn, kF, s), (CountValue{2 * M * d * f, 4 * M * d * f + 9 * M * f + M * d}));
      EXPECT_EQ(at(ffn, kB, s), (CountValue{2 * M * f * d, 4 * M * d * f + 13 * M * f}));
      EXPECT_EQ(at(ffn, kU, s), (CountValue{2 * M * f * d, 4 * M * f * d}));
      EXPECT_EQ(at(norm, kF, s), (CountValue{0, 9 * M * d}));
      EXPECT_EQ(at(norm, kB, s), (CountValue{M * d * d, 11 * M * d * d + 2 * M * d}));
      EXPECT_EQ(at(norm, kU, s), (CountValue{M * d, 3 * M * d}));
      EXPECT_EQ(at(softmax, kF, s), (CountValue{M * d * v, 2 * M * d * v + 5 * M * v}));
      EXPECT_EQ(at(softmax, kB, s), (CountValue{M * v * d, 2 * M * v * d}));
      EXPECT_EQ(at(softmax, kU, s), (CountValue{d * M * v, 2 * d * M * v}));
      for (const auto& [space, width] :
           {std::pair(ErrorSpace::kVocabulary, v), std::pair(ErrorSpace::kModel, d)}) {
        const LayerFormula error = paper_error_projection(view, symbols::N, symbols::M, space);
        EXPECT_EQ(at(error, CostPhase::kErrorProjection, s),
                  (CountValue{2 * N * M * width, 4 * N * M * width + 6 * N * M}));
      }
    }
  }
  const LayerFormula cached = paper_feed_forward(CostView::kPrinted, symbols::M, 10);
  EXPECT_EQ(cached.total(kB).flops.text(), "4·M·d·f + 10·M·f");
}

TEST(Paper, ExecutedLayersHaveNoJacobians) {
  const LayerFormula embedding = executed_embedding(symbols::M);
  const LayerFormula mha = executed_attention(
      {.role = AttentionRole::kCross, .queries = symbols::M, .keys = symbols::N});
  const LayerFormula ffn = executed_feed_forward(symbols::M);
  const LayerFormula norm = executed_add_norm(symbols::M);
  const LayerFormula softmax = executed_softmax_layer(symbols::M);
  for (const Shape& s : random_shapes()) {
    const auto [M, N, d, h, f, v] = s;
    const auto count = [](Integer maccs, Integer other) {
      return CountValue{maccs, 2 * maccs + other};
    };
    EXPECT_EQ(at(embedding, kF, s), count(0, M * d));
    EXPECT_EQ(at(embedding, kU, s), count(0, M * d));
    const Integer projections = 2 * M * d * d + 2 * N * d * d;
    EXPECT_EQ(at(mha, kF, s), count(projections + 2 * M * N * d, 5 * M * N * h + M * d));
    EXPECT_EQ(at(mha, kB, s), count(projections + 4 * M * N * d, 4 * M * N * h + M * d));
    EXPECT_EQ(at(mha, kU, s), count(projections, 0));
    EXPECT_EQ(at(ffn, kF, s), count(2 * M * d * f, 9 * M * f + M * d));
    EXPECT_EQ(at(ffn, kB, s), count(2 * M * d * f, 14 * M * f));
    EXPECT_EQ(at(ffn, kU, s), count(2 * M * d * f, M * f + M * d));
    EXPECT_EQ(at(norm, kF, s), count(0, M * (8 * d + 5)));
    EXPECT_EQ(at(norm, kB, s), count(0, M * (9 * d + 2)));
    EXPECT_EQ(at(norm, kU, s), count(0, 3 * M * d));
    EXPECT_EQ(at(softmax, kF, s), count(M * d * v, 5 * M * v));
    EXPECT_EQ(at(softmax, kB, s), count(M * d * v, M));
    EXPECT_EQ(at(softmax, kU, s), count(M * d * v, 0));
    const LayerFormula error =
        executed_error_projection(symbols::N, symbols::M, ErrorSpace::kVocabulary);
    EXPECT_EQ(at(error, CostPhase::kErrorProjection, s), count(N * M * v, 6 * N * M));
  }
}

TEST(Paper, ExecutedAttentionCountsPairsAndRecomputation) {
  using symbols::d, symbols::h, symbols::N, symbols::p;
  const LayerFormula causal =
      executed_attention({.role = AttentionRole::kMasked, .queries = N, .keys = N, .pairs = p});
  EXPECT_EQ(causal.total(kF).maccs, 4 * N * d * d + 2 * p * d);
  EXPECT_EQ(causal.total(kB).flops, 8 * N * d * d + 8 * p * d + 4 * p * h + N * d);
  const LayerFormula flash = executed_attention(
      {.role = AttentionRole::kMasked, .queries = N, .keys = N, .recompute_scores = true});
  EXPECT_EQ(flash.total(kF).maccs, 4 * N * d * d + 2 * N * N * d);
  EXPECT_EQ(flash.total(kB).maccs, 4 * N * d * d + 5 * N * N * d);
}

std::vector<LayerFormula> all_layers(CostView view) {
  using symbols::M, symbols::N;
  return {paper_embedding(view, M),
          paper_attention(view, AttentionRole::kSelf, M, N),
          paper_attention(view, AttentionRole::kMasked, M, N),
          paper_attention(view, AttentionRole::kCross, M, N),
          paper_feed_forward(view, M),
          paper_add_norm(view, M),
          paper_softmax_layer(view, M),
          paper_error_projection(view, N, M, ErrorSpace::kVocabulary),
          paper_error_projection(view, N, M, ErrorSpace::kModel)};
}

TEST(Paper, CorrectedTotalsAreTheSumsOfTheirLines) {
  for (const LayerFormula& layer : all_layers(CostView::kCorrected)) {
    for (const CostPhase phase : kCostPhases) {
      EXPECT_EQ(layer.total(phase), layer.sum_of_lines(phase)) << layer.name;
    }
  }
}

TEST(Paper, PrintedTotalsMissTheirLinesInD1AndD3Only) {
  using symbols::d, symbols::h, symbols::M, symbols::N;
  for (const LayerFormula& layer : all_layers(CostView::kPrinted)) {
    for (const CostPhase phase : kCostPhases) {
      CountFormula expected;
      if (phase == kB && layer.kind == LayerKind::kAttention) expected = {0, N * N * M * h};
      if (phase == kB && layer.kind == LayerKind::kAddNorm) expected = {M * d, -M * d};
      EXPECT_EQ(layer.sum_of_lines(phase) - layer.total(phase), expected) << layer.name;
    }
  }
}

TEST(Paper, CorrectedDiffersFromPrintedByD1AndD2Only) {
  using symbols::h, symbols::M, symbols::N;
  const auto printed = all_layers(CostView::kPrinted);
  const auto corrected = all_layers(CostView::kCorrected);
  for (std::size_t i = 0; i < printed.size(); ++i) {
    for (const CostPhase phase : kCostPhases) {
      CountFormula expected;
      if (phase == kB && printed[i].kind == LayerKind::kAttention) {
        const Polynomial slice = M * N * N * h - M * N * M * h;  // D2
        expected = {slice, 2 * slice + N * N * M * h};           // D1
      }
      EXPECT_EQ(corrected[i].total(phase) - printed[i].total(phase), expected) << printed[i].name;
    }
  }
  // Where M = N, the MACCs agree.
  const Polynomial gap = corrected[1].total(kB).maccs - printed[1].total(kB).maccs;
  EXPECT_TRUE(gap.substitute(M, N).is_zero());
}

TEST(Paper, BackwardAndUpdateAreTwiceForwardButForTheJacobian) {
  using symbols::h, symbols::M, symbols::N;
  const auto excess = [](const LayerFormula& layer) {
    return layer.total(kB).maccs + layer.total(kU).maccs - 2 * layer.total(kF).maccs;
  };
  const CostView view = CostView::kPrinted;
  EXPECT_EQ(excess(paper_attention(view, AttentionRole::kSelf, M, N)), M * N * M * h);
  EXPECT_TRUE(excess(paper_feed_forward(view, M)).is_zero());
  EXPECT_TRUE(excess(paper_softmax_layer(view, M)).is_zero());
  EXPECT_TRUE(excess(executed_attention({.queries = M, .keys = N})).is_zero());
}

TEST(Paper, LinesNameTheirEquations) {
  for (const CostView view : {CostView::kPrinted, CostView::kCorrected}) {
    for (const LayerFormula& layer : all_layers(view)) {
      EXPECT_EQ(layer.view, view);
      for (const FormulaLine& line : layer.lines) {
        EXPECT_FALSE(line.equation.empty()) << layer.name << ": " << line.operation;
        EXPECT_FALSE(line.operation.empty());
      }
    }
  }
  const LayerFormula mha =
      paper_attention(CostView::kPrinted, AttentionRole::kSelf, symbols::M, symbols::N);
  EXPECT_EQ(mha.total(kF).maccs.text(), "2·M·d² + 2·M·N·d + 2·N·d²");
  EXPECT_EQ(mha.total(kB).flops.text(), "2·M²·N·h + 4·M·d² + 8·M·N·d + 4·N·d² + M·N·h");
}

TEST(Discrepancies, AreTwentyAndEveryLayerNamesOnesThatExist) {
  int number = 0;
  for (const Discrepancy& entry : discrepancies()) {
    EXPECT_EQ(entry.number, ++number);
    EXPECT_EQ(entry.id, fmt::format("D{}", number));
    EXPECT_EQ(entry.paper.back(), '.');
    EXPECT_EQ(entry.meant.back(), '.');
    EXPECT_EQ(entry.in_corrected, number <= 3);
  }
  EXPECT_EQ(number, 20);
  EXPECT_EQ(discrepancy(2).id, "D2");
  EXPECT_EQ(name_of(discrepancy(2).severity), "high");
  EXPECT_THROW(discrepancy(0), Error);
  EXPECT_THROW(discrepancy(21), Error);
  std::set<int> named;
  for (const LayerFormula& layer : all_layers(CostView::kPrinted)) {
    for (const int each : layer.discrepancies) named.insert(discrepancy(each).number);
  }
  // Of steps and rules rather than layers: D8 to D10, and the claim about GPT-3.
  EXPECT_EQ(named, (std::set<int>{1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 14, 15, 16, 17, 18, 19}));
}

}  // namespace paper_test
}  // namespace longspan
