#include "longspan/learning/rule.h"

#include <array>
#include <vector>

#include "longspan/base/config.h"
#include "longspan/base/meter.h"
#include "longspan/learning/backprop.h"
#include "longspan/learning/direct_feedback.h"
#include "longspan/learning/feedback_alignment.h"
#include "longspan/learning/pepita.h"

namespace longspan {

namespace {

std::unique_ptr<Rule> make_backprop(Model& model, const Feedback& /*feedback*/,
                                    RandomKey /*seed*/) {
  return std::make_unique<Backprop>(model);
}

// Its feedback has no choices.
template <class R>
std::unique_ptr<Rule> make_drawn(Model& model, const Feedback& /*feedback*/, RandomKey seed) {
  return std::make_unique<R>(model, seed);
}

template <class R>
std::unique_ptr<Rule> make(Model& model, const Feedback& feedback, RandomKey seed) {
  return std::make_unique<R>(model, feedback, seed);
}

constexpr std::array kRules = {
    RuleEntry{"bp", "backpropagation: the exact gradient", &make_backprop},
    RuleEntry{"pepita", "two forward passes, the second with the output error on its input",
              &make<Pepita>, /*reads_feedback=*/true},
    RuleEntry{"mempepita", "pepita that keeps no activations: a third pass beside the second",
              &make<Mempepita>, /*reads_feedback=*/true},
    RuleEntry{"fa", "feedback alignment: backpropagation through fixed random matrices",
              &make_drawn<FeedbackAlignment>},
    RuleEntry{"dfa", "direct feedback alignment: the output error straight to every block",
              &make_drawn<DirectFeedback>},
};

}  // namespace

CostTable Rule::cost(const Batch& shape) const {
  Meter meter;
  {
    const Meter::Use use(meter);
    walk(shape);
  }
  return cost_of(meter);
}

std::span<const RuleEntry> rules() { return kRules; }

const RuleEntry& find_rule(std::string_view name) {
  std::vector<std::string_view> known;
  for (const RuleEntry& rule : kRules) {
    if (rule.name == name) return rule;
    known.push_back(rule.name);
  }
  throw_unknown("rule", "learning rule", name, known);
}

std::unique_ptr<Rule> make_rule(std::string_view name, Model& model, const Feedback& feedback,
                                RandomKey seed) {
  return find_rule(name).make(model, feedback, seed);
}

}  // namespace longspan
