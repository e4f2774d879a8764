// Golden tables of rotary frequencies and their scalings.
#pragma once

#include "tests/vectors/golden_case.h"

namespace longspan::golden {

void run_rotary(const Case& golden, Comparison& comparison);

}  // namespace longspan::golden
