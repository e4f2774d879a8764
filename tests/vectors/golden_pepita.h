// Golden cases of PEPITA's training steps.
#pragma once

#include "tests/vectors/golden_case.h"

namespace longspan::golden {

// A perceptron without biases takes the reference's steps, with its weights and its F, by PEPITA
// and by MEMPEPITA.
void run_pepita(const Case& golden, Comparison& comparison);

}  // namespace longspan::golden
