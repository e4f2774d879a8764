// Time against length, both logarithmic, in characters.
#pragma once

#include <string>

#include "longspan/report/compare_record.h"

namespace longspan {

// full, flash and the fastest others, at the last lengths that fit; empty where there are fewer
// than two.
std::string compare_plot(const CompareRecord& record, std::size_t width);

}  // namespace longspan
