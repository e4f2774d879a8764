#include "longspan/testing/dry_branch.h"

#include <gtest/gtest.h>

#include "longspan/base/meter.h"

namespace longspan::testing {

DryBranch walk_branch(const Branch& branch, Pass pass, std::size_t d_model, Beside beside) {
  const Dry dry;
  Arena arena = Arena::dry();
  const auto rows = [&](std::size_t count) {
    return Matrix(Dry::memory<float>(count * d_model).data(), count, d_model);
  };
  const Matrix x = rows(pass.rows());
  pass.context = rows(pass.context_rows());
  beside.context_gradient = rows(pass.context_rows());
  DryBranch walked;
  branch.forward({pass, x, x, nullptr, beside, arena});
  walked.memory.inference_scratch = arena.peak();
  const Kept saved = branch.save(pass, arena);
  walked.memory.saved = arena.used();
  Meter meter;
  const Meter::Use use(meter);
  arena.reset_peak();
  {
    const Place::Scope scope("branch", Phase::kForward);
    branch.forward({pass, x, x, &saved, beside, arena});
  }
  walked.memory.forward_scratch = arena.peak() - walked.memory.saved;
  arena.reset_peak();
  Kept signals;
  {
    const Place::Scope scope("branch", Phase::kBackward);
    signals = branch.backward({pass, saved, x, x, beside, arena});
  }
  {
    const Place::Scope scope("branch", Phase::kUpdate);
    branch.accumulate({pass, x, saved, x, signals, beside});
  }
  walked.memory.backward_scratch = arena.peak() - walked.memory.saved;
  walked.cost = longspan::cost_of(meter)["branch"];
  return walked;
}

CostTable expect_dry_is_wet(const std::function<void(Arena&)>& step) {
  Meter wet;
  Meter dry;
  Arena memory(1U << 24U);
  Arena addresses = Arena::dry();
  {
    const Meter::Use use(wet);
    step(memory);
  }
  {
    const Meter::Use use(dry);
    const Dry scope;
    step(addresses);
  }
  EXPECT_EQ(wet.entries(), dry.entries());
  EXPECT_EQ(memory.peak(), addresses.peak());
  EXPECT_EQ(memory.used(), addresses.used());
  return longspan::cost_of(dry);
}

}  // namespace longspan::testing
