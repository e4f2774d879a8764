// What a step costs under each learning rule (F, B, U, P: forward, backward, update, projection):
//
//   BP         F + B + U
//   PEPITA     2F + U + P       a pass, then a pass with the output error added to the input
//   MEMPEPITA  3F + U + P       the first pass again, beside the second, instead of keeping it
//
// P is 0 unless there are an encoder and a decoder; elsewhere the error has the input's shape.
// These are the paper's. Feedback alignment and its direct form are beyond it: the engine alone
// counts them, by walking their step.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "longspan/cost/model_formula.h"
#include "longspan/learning/feedback.h"
#include "longspan/learning/optimizer.h"

namespace longspan {

enum class LearningRule : std::uint8_t { kBackprop, kPepita, kMempepita, kFeedback, kDirect };
inline constexpr std::array kLearningRules = {LearningRule::kBackprop, LearningRule::kPepita,
                                              LearningRule::kMempepita, LearningRule::kFeedback,
                                              LearningRule::kDirect};
std::string_view name_of(LearningRule rule);  // as in learning/rule.h: "bp", "pepita", …
// Those that every view has; the others are walked.
inline constexpr std::array kPaperRules = {LearningRule::kBackprop, LearningRule::kPepita,
                                           LearningRule::kMempepita};
constexpr bool in_paper(LearningRule rule) { return rule <= LearningRule::kMempepita; }

// How often a rule of the paper does each.
struct RulePasses {
  int forward = 1;
  int backward = 1;
  int update = 1;
  int error_projection = 0;
};
RulePasses passes_of(LearningRule rule);
// How many of the forward passes reach the last layer (D10): with the standard error the first one
// alone, with the modulated error no second standard one.
int last_layer_passes(int passes, LastLayer last_layer);

// The choices that the paper leaves open (D5, D10), and where the error is added.
struct RuleTerms {
  Choice<LastLayer> last_layer = LastLayer::kDifference;
  Choice<ErrorSpace> error_space = ErrorSpace::kVocabulary;
  Choice<ErrorInjection> injection = ErrorInjection::kInput;
};

// The same for the engine.
Feedback feedback_of(const RuleTerms& terms);

struct RuleFormula {
  LearningRule rule = LearningRule::kBackprop;
  PhaseCounts phases;                     // of a step: all passes of a phase together
  std::vector<FormulaLine> overhead;      // the lines of kRuleOverhead
  std::vector<LayerFormula> projections;  // of kErrorProjection: none or one

  std::vector<int> discrepancies;  // those that touch this rule in this view: 9 for D9

  const CountFormula& phase(CostPhase which) const {
    return phases[static_cast<std::size_t>(which)];
  }
  CountFormula& phase(CostPhase which) { return phases[static_cast<std::size_t>(which)]; }
  // Without the optimiser, as in the paper.
  CountFormula total() const;
};

// The paper's views have no rule overhead (D9); `executed` has:
//   e = a_L − target                                                       M FLOPs
//   e·W_emb in the modulated pass, eᵀ·(a − a_err) in the embedding's update  2·M·v·d MACCs
//   a − a_err of every layer: 7·M·d + M·f FLOPs for an encoder block, M·d for the embedding
//   the signal of the last layer: M·v, M or 0 FLOPs (D10)
//   adding the decoder's error once it is known in the space of the model    M·d FLOPs
RuleFormula rule_formula(const ModelFormula& model, LearningRule rule, const RuleTerms& terms = {});

// From gradients to new parameters, which no rule counts (D8).
CountFormula optimizer_formula(OptimizerKind kind, const Polynomial& parameters);

}  // namespace longspan
