// Golden cases of the mechanisms that run on the block-sparse kernel.
#pragma once

#include "tests/vectors/golden_case.h"

namespace longspan::golden {

void run_bigbird(const Case& golden, Comparison& comparison);
void run_longformer(const Case& golden, Comparison& comparison);
// The disentangled layer of DeBERTa, version 1 and versions 2 and 3.
void run_deberta_v1(const Case& golden, Comparison& comparison);
void run_deberta_v2(const Case& golden, Comparison& comparison);
void run_transformer_xl(const Case& golden, Comparison& comparison);

}  // namespace longspan::golden
