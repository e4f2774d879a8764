// Golden layers of multi-head latent attention.
#pragma once

#include "tests/vectors/golden_case.h"

namespace longspan::golden {

// Whole sequences and token by token, in both forms of decoding, with what the cache holds.
void run_latent(const Case& golden, Comparison& comparison);

}  // namespace longspan::golden
