// A learning rule decides which signals the layers are fed; the optimiser only turns the gradients
// that come of it into steps.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "longspan/learning/feedback.h"
#include "longspan/models/model.h"

namespace longspan {

class Rule {
 public:
  virtual ~Rule() = default;
  // Checks and books a step of this shape (tokens may be empty) before there is any data.
  virtual void prepare(const Batch& shape) = 0;
  // A step dry: what it takes from the model's arena; a listener hears what it does.
  virtual StepMemory walk(const Batch& shape) const = 0;
  // What such a walk executes, by the meter's names.
  CostTable cost(const Batch& shape) const;
  // Floats that the rule keeps for itself.
  virtual std::size_t own_floats() const { return 0; }
  // Whether it learns from a packed batch what it learns from the padded one, where the model can.
  virtual bool packs() const { return true; }
  // Adds the gradients of scale·(sum of the batch's losses), or what the rule has for them, to the
  // model's; returns the loss before the step. `key` seeds the dropout of this batch.
  // Beside the batch may come what the layers remember of earlier segments.
  LossSum accumulate(const Batch& batch, RandomKey key, float scale,
                     std::span<History> histories = {}) {
    return run(batch, key, scale, histories);
  }

 private:
  virtual LossSum run(const Batch& batch, RandomKey key, float scale,
                      std::span<History> histories) = 0;
};

struct RuleEntry {
  std::string_view name;
  std::string_view summary;
  // The model must outlive the rule; `seed` draws what the rule needs for itself.
  std::unique_ptr<Rule> (*make)(Model& model, const Feedback& feedback, RandomKey seed);
  bool reads_feedback = false;  // else its choices mean nothing
};
std::span<const RuleEntry> rules();
// Throws Error with the nearest name when there is none.
const RuleEntry& find_rule(std::string_view name);
std::unique_ptr<Rule> make_rule(std::string_view name, Model& model, const Feedback& feedback = {},
                                RandomKey seed = 1);

}  // namespace longspan
