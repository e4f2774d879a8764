// Golden cases of the Reformer: queries that are keys.
#pragma once

#include "tests/vectors/golden_case.h"

namespace longspan::golden {

// qk and v by head, the weights of rounds combined as in the sidecar's convention.
void run_reformer(const Case& golden, Comparison& comparison);
// The same between the projections of a layer.
void run_reformer_layer(const Case& golden, Comparison& comparison);

}  // namespace longspan::golden
