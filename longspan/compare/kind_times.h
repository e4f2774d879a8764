// Where the time of a pass went, kind by kind, and what bounds each on the machine's roofline.
//
// A kernel that does one kind of work has the time between its report and the one before. One that
// fuses several is divided in the ratio of what the kinds would take alone: FLOPs at the rate of
// their kind or bytes at the rate of memory, whichever is longer.
#pragma once

#include <span>
#include <vector>

#include "longspan/base/meter.h"
#include "longspan/compare/compare_point.h"

namespace longspan {

// Kinds by falling time. The laps are scaled to `seconds` in all.
std::vector<KindTime> kind_times(std::span<const Meter::Lap> laps, const CompareRoofline& roofline,
                                 double seconds);

}  // namespace longspan
