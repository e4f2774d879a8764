// Inverse questions: the longest sequence, largest batch or widest model within a budget, and the
// length from which one mechanism is cheaper than another.
//
// Nothing is approximated and nothing allocated: each candidate is a model built to be counted, and
// what it takes is memory_use() and executed_counts() of its shapes.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "longspan/cost/memory_use.h"

namespace longspan {

enum class SolveFor : std::uint8_t { kLength, kBatch, kWidth };
inline constexpr std::array<SolveFor, 3> kSolveFor = {SolveFor::kLength, SolveFor::kBatch,
                                                      SolveFor::kWidth};
std::string_view name_of(SolveFor what);

// How a candidate is used, and what is assumed of it.
struct SolveTerms {
  bool inference = false;  // a forward pass that keeps nothing, instead of a training step
  ElementType element;
  OptimizerKind optimizer = OptimizerKind::kAdam;
  LearningRule rule = LearningRule::kBackprop;
  RuleTerms rule_terms;
  std::optional<Integer> tokens;  // FLOPs are of a run over so many; nothing: of a step
};

// What a candidate takes.
struct Need {
  Integer bytes = 0;  // weights, gradients, optimiser and arena; of inference weights and arena
  CountValue work;    // of a step or run, without the optimiser's own (D8)
};

// What is fixed, and how the rest follows from what is asked for.
struct SolveQuestion {
  Workload workload;
  SolveFor what = SolveFor::kLength;
  bool target_follows = true;                 // M = N, where there are both
  std::optional<std::size_t> most_positions;  // nothing: as many as the length needs
  SolveTerms terms;

  // The workload whose answer is the k-th that can be: length or batch k; k times the narrowest
  // width, which has the heads' width and d_ff/d_model of the workload and, where keys and values
  // are shared, as many heads of them.
  Workload candidate(std::size_t k) const;
  std::size_t value(std::size_t k) const;
  // Why the k-th cannot be: it is larger than anything counted. Empty: it can.
  std::string beyond_limits(std::size_t k, bool counts_work) const;
};

struct SolveBudget {
  std::optional<Integer> bytes;
  std::optional<Integer> flops;
};

struct SolveAnswer {
  std::size_t value = 0;  // the largest within the budget
  Workload workload;      // which has it
  Need need;
  std::size_t next_value = 0;  // the next larger one
  std::optional<Need> next;    // what that would take, which is more than the budget
  std::string limit;           // or why nobody can say
};
// Throws Error, in one sentence, where even the smallest is over the budget. At least one budget is
// needed. Work is counted only where `budget.flops` asks for it.
SolveAnswer largest_within(const SolveQuestion& question, const SolveBudget& budget);

enum class Measure : std::uint8_t { kFlops, kMaccs, kBytes };
inline constexpr std::array<Measure, 3> kMeasures = {Measure::kFlops, Measure::kMaccs,
                                                     Measure::kBytes};
std::string_view name_of(Measure measure);

// From which length on does `first` take less than `second`, each in every layer of the workload
// that `attention` names?
struct MechanismCrossover {
  struct At {
    std::size_t length = 0;
    Integer first = 0, second = 0;
  };
  Measure measure = Measure::kFlops;
  std::optional<At> from;    // the least such that it does there and everywhere above
  std::optional<At> before;  // one token less, where it does not; nothing: `from` is 1 token
  At last;                   // the longest that was looked at
};
std::array<MechanismCrossover, kMeasures.size()> compare_mechanisms(const SolveQuestion& question,
                                                                    const std::string& first,
                                                                    const std::string& second);

}  // namespace longspan
