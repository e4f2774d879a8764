// Golden cases of the published code of the Transformer Hawkes process.
#pragma once

#include "tests/vectors/golden_case.h"

namespace longspan::golden {

void run_published_events(const Case& golden, Comparison& comparison);

}  // namespace longspan::golden
