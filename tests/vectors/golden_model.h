// Running a whole model, read as a checkpoint of its library, on a golden case.
#pragma once

#include "tests/vectors/golden_case.h"

namespace longspan::golden {

// With the mechanisms that the config names; where these are plain exact attention, with each that
// computes it.
void run_model(const Case& golden, Comparison& comparison);
// CLIP: a tower of texts and one of images.
void run_two_towers(const Case& golden, Comparison& comparison);
// The same with histories of an earlier segment; the case has the losses of tokens for logits.
void run_segment_model(const Case& golden, Comparison& comparison);

}  // namespace longspan::golden
