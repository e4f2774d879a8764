#include "longspan/learning/rule.h"

#include <array>
#include <vector>

#include "longspan/base/config.h"
#include "longspan/learning/backprop.h"

namespace longspan {

namespace {

template <class R>
std::unique_ptr<Rule> make() {
  return std::make_unique<R>();
}

constexpr std::array kRules = {
    RuleEntry{"bp", "backpropagation: the exact gradient", &make<Backprop>},
};

}  // namespace

std::span<const RuleEntry> rules() { return kRules; }

std::unique_ptr<Rule> make_rule(std::string_view name) {
  std::vector<std::string_view> known;
  for (const RuleEntry& rule : kRules) {
    if (rule.name == name) return rule.make();
    known.push_back(rule.name);
  }
  throw_unknown("rule", "learning rule", name, known);
}

}  // namespace longspan
