// Golden cases of attention by features and of low rank.
#pragma once

#include "tests/vectors/golden_case.h"

namespace longspan::golden {

void run_linear(const Case& golden, Comparison& comparison);
void run_efficient(const Case& golden, Comparison& comparison);
void run_performer(const Case& golden, Comparison& comparison);
void run_linformer_layer(const Case& golden, Comparison& comparison);
void run_linformer_model(const Case& golden, Comparison& comparison);

}  // namespace longspan::golden
