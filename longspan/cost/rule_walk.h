// A rule beyond the paper, on a model built to be walked: its counts, memory and time are those of
// the engine's own step, dry.
#pragma once

#include <memory>

#include "longspan/cost/rules.h"
#include "longspan/learning/rule.h"

namespace longspan {

class RuleWalk {
 public:
  // Throws Error, in one sentence, for models that the rule cannot train.
  RuleWalk(const ModelConfig& config, LearningRule rule)
      : model_(config), rule_(make_rule(name_of(rule), model_)) {}

  const Model& model() const { return model_; }
  const Rule& rule() const { return *rule_; }

 private:
  Model model_;
  std::unique_ptr<Rule> rule_;
};

}  // namespace longspan
