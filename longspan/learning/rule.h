// A learning rule decides which signals the layers are fed; the optimiser only turns the gradients
// that come of it into steps.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "longspan/models/model.h"

namespace longspan {

class Rule {
 public:
  virtual ~Rule() = default;
  virtual std::string_view name() const = 0;
  // Adds the gradients of scale·(sum of the batch's losses) to the model's; returns the loss before
  // the step. `key` seeds the dropout of this batch.
  virtual CrossEntropy accumulate(Model& model, const Batch& batch, RandomKey key, float scale) = 0;
};

struct RuleEntry {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<Rule> (*make)();
};
std::span<const RuleEntry> rules();
// Throws Error with the nearest name when there is none.
std::unique_ptr<Rule> make_rule(std::string_view name);

}  // namespace longspan
