// Golden batches of multi-query associative recall.
#pragma once

#include "tests/vectors/golden_case.h"

namespace longspan::golden {

void run_recall(const Case& golden, Comparison& comparison);

}  // namespace longspan::golden
