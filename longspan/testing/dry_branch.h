// A branch run dry: what it does, and what it takes from the arena.
#pragma once

#include <functional>

#include "longspan/base/cost.h"
#include "longspan/layers/branch.h"

namespace longspan::testing {

// Bytes that a branch keeps from forward to backward, and the most it takes on top while it runs.
struct BranchMemory {
  std::size_t saved = 0;
  std::size_t forward_scratch = 0;    // of a forward that saves
  std::size_t inference_scratch = 0;  // of one that does not
  std::size_t backward_scratch = 0;   // signals for accumulate included
  bool operator==(const BranchMemory&) const = default;
};

struct DryBranch {
  Cost cost;
  BranchMemory memory;
};
DryBranch walk_branch(const Branch& branch, Pass pass, std::size_t d_model, Beside beside = {});
inline Cost cost_of(const Branch& branch, const Pass& pass, std::size_t d_model) {
  return walk_branch(branch, pass, d_model).cost;
}

// Runs `step` with memory and without: both take the same from the arena and count the same, kind
// by kind. Returns what they count.
CostTable expect_dry_is_wet(const std::function<void(Arena&)>& step);

}  // namespace longspan::testing
