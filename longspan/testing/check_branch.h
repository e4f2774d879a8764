// Everything a residual branch promises, in one call: values, both gradients, memory and cost.
#pragma once

#include <functional>

#include "longspan/layers/branch.h"
#include "longspan/testing/check_layer.h"

namespace longspan::testing {

struct BranchCase {
  const Branch* branch = nullptr;
  Parameters* parameters = nullptr;  // of the branch, allocated
  Pass pass;                         // without context: it is made here where context_length > 0
  Beside beside = {};
  std::size_t d_model = 0;
  // y from the parameters, "x" and, for cross-attention, "context".
  std::function<Tensor<Complex>(const Weights&)> reference;
};

// - forward with and without saving gives the reference's y, and both the same bits;
// - backward sets dx and adds to the context's gradient, accumulate adds to the parameters';
// - the arena's high-water marks are footprint();
// - the meter counts cost().
void expect_branch(const BranchCase& c);

}  // namespace longspan::testing
