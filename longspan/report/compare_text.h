// A comparison for people and spreadsheets: tables of at most 100 columns, a small plot, CSV.
#pragma once

#include <string>

#include "longspan/report/compare_record.h"

namespace longspan {

inline constexpr std::size_t kTextColumns = 100;

// Tables of time and memory, what was refused or failed, predictions, the plot, the conclusion.
std::string compare_text(const CompareRecord& record);
std::string compare_csv(const CompareRecord& record);
// Times here divided by times there, where both were measured.
std::string compare_against(const CompareRecord& here, const CompareRecord& there);

}  // namespace longspan
