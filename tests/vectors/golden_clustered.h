// Golden cases of attention by clusters of queries.
#pragma once

#include "tests/vectors/golden_case.h"

namespace longspan::golden {

// The hashes must be the reference's; the clusters are taken from it, because they depend on where
// its k-means began.
void run_clustered(const Case& golden, Comparison& comparison);
void run_improved_clustered(const Case& golden, Comparison& comparison);

}  // namespace longspan::golden
