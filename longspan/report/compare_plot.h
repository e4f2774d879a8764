// Time against length, both logarithmic, in characters.
#pragma once

#include <string>

#include "longspan/report/compare_record.h"

namespace longspan {

// full, flash and the fastest others; empty where there are fewer than two lengths.
std::string compare_plot(const CompareRecord& record);

}  // namespace longspan
