// The cost of a layer as formulas: one line per macro-operation, one total per phase.
//
// 1 MACC = one multiply-accumulate = 2 FLOPs; every other mathematical operation = 1 FLOP.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/cost/polynomial.h"

namespace longspan {

// What is counted.
//   printed    the totals that the paper prints, verbatim
//   corrected  the same cost model with its own sums put right (D1, D2, D3 of discrepancies.h)
//   executed   what an efficient engine with exact softmax attention does
enum class CostView : std::uint8_t { kPrinted, kCorrected, kExecuted };
inline constexpr std::array kCostViews = {CostView::kPrinted, CostView::kCorrected,
                                          CostView::kExecuted};
std::string_view name_of(CostView view);

enum class CostPhase : std::uint8_t {
  kForward,
  kBackward,         // the signal to a layer's input
  kUpdate,           // the signal to its parameters
  kErrorProjection,  // the output error brought to the encoder's input
  kRuleOverhead,     // what a learning rule does besides
  kOptimizer,        // from gradients to new parameters
};
inline constexpr std::array kCostPhases = {CostPhase::kForward,      CostPhase::kBackward,
                                           CostPhase::kUpdate,       CostPhase::kErrorProjection,
                                           CostPhase::kRuleOverhead, CostPhase::kOptimizer};
std::string_view name_of(CostPhase phase);

// A count in numbers.
struct CountValue {
  Integer maccs = 0;
  Integer flops = 0;

  // Throw Error where the result needs more than 128 bits.
  CountValue& operator+=(const CountValue& more);
  friend CountValue operator+(CountValue a, const CountValue& b) { return a += b; }
  friend CountValue operator*(Integer times, const CountValue& count);
  bool operator==(const CountValue&) const = default;
};

// FLOPs include the two of each MACC.
struct CountFormula {
  Polynomial maccs;
  Polynomial flops;

  CountFormula& operator+=(const CountFormula& more);
  friend CountFormula operator+(CountFormula a, const CountFormula& b) { return a += b; }
  friend CountFormula operator-(const CountFormula& a, const CountFormula& b) {
    return {a.maccs - b.maccs, a.flops - b.flops};
  }
  friend CountFormula operator*(const Polynomial& times, const CountFormula& count) {
    return {times * count.maccs, times * count.flops};
  }
  bool operator==(const CountFormula&) const = default;
  CountValue evaluate(const SymbolValues& values) const;
};
// 2·maccs + other FLOPs.
CountFormula matmuls(const Polynomial& maccs, const Polynomial& other_flops = {});

using PhaseCounts = std::array<CountFormula, kCostPhases.size()>;

struct FormulaLine {
  std::string operation;  // "∂L/∂V"
  std::string equation;   // of the paper: "(24)", "5.4.2"; of the engine: the identity it uses
  CostPhase phase = CostPhase::kForward;
  CountFormula count;
};

enum class LayerKind : std::uint8_t {
  kEmbedding,
  kAttention,
  kFeedForward,
  kAddNorm,
  kSoftmax,
  kErrorProjection
};

struct LayerFormula {
  LayerKind kind = LayerKind::kEmbedding;
  CostView view = CostView::kPrinted;
  std::string name;    // "mha"
  Polynomial queries;  // rows that go in and come out
  Polynomial keys;     // of attention and error projection; elsewhere as queries
  Polynomial parameters;
  std::vector<FormulaLine> lines;
  // The totals: of `corrected` and `executed` the sums of the lines; of `printed` the paper's
  // boxes, which are not always that.
  PhaseCounts totals;
  // Whether backpropagation has the update phase; the paper's embedding has it for PEPITA only.
  bool updated_by_backprop = true;
  std::vector<int> discrepancies;  // those that touch this layer in this view: 1 for D1

  const CountFormula& total(CostPhase phase) const {
    return totals[static_cast<std::size_t>(phase)];
  }
  CountFormula& total(CostPhase phase) { return totals[static_cast<std::size_t>(phase)]; }
  CountFormula sum_of_lines(CostPhase phase) const;
  // Makes every total the sum of its lines.
  void sum_lines();
};

}  // namespace longspan
