// What the machine can give: the fused multiply-adds a second that independent registers reach.
//
// Efficiency is useful FLOPs / (time × peak). Clocks move with temperature and neighbours, so the
// peak is measured beside whatever it judges.
#pragma once

#include <string_view>

namespace longspan {

// FLOP/s (one FMA = two per lane) of thread_count() threads together; the best of several runs
// within about `seconds`. Not metered.
double fma_peak(double seconds = 0.05);

// The instruction set that the kernels dispatch to: "AVX2", "AVX3", …
std::string_view instruction_set();

}  // namespace longspan
