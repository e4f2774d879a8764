// After the first step no rule allocates.
#include <gtest/gtest.h>

#include "longspan/base/error.h"
#include "longspan/learning/rule.h"
#include "longspan/testing/allocations.h"
#include "longspan/testing/reference_cases.h"

namespace longspan {
namespace rule_allocation_test {

using testing::allocations;
using testing::BatchData;
using testing::ModelCase;

TEST(RuleAllocations, NoneAfterTheFirstStep) {
  for (const auto& cases : {testing::model_cases(), testing::perceptron_cases()}) {
    for (const ModelCase& c : cases) {
      const BatchData data(c.config, c.shape, 1);
      const Batch batch = data.view();
      for (const RuleEntry& entry : rules()) {
        Model model(c.config);
        model.allocate(1);
        std::unique_ptr<Rule> rule;
        try {
          rule = make_rule(entry.name, model);
        } catch (const Error&) {
          continue;  // not for such a model
        }
        rule->accumulate(batch, 1, 1.0F);
        const std::size_t before = allocations();
        rule->accumulate(batch, 2, 1.0F);
        rule->accumulate(batch, 3, 1.0F);
        EXPECT_EQ(allocations() - before, 0U) << c.name << ' ' << entry.name;
      }
    }
  }
}

}  // namespace rule_allocation_test
}  // namespace longspan
