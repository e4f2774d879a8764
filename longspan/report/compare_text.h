// A comparison for people and spreadsheets: tables and a small plot that fit a terminal, CSV.
#pragma once

#include <string>

#include "longspan/report/compare_record.h"
#include "longspan/report/lines.h"

namespace longspan {

// Tables of time and memory, what was refused or failed, predictions, the plot, the conclusion, in
// lines of at most `width` characters: of the lengths the last ones that fit.
std::string compare_text(const CompareRecord& record, std::size_t width = kUsualColumns);
std::string compare_csv(const CompareRecord& record);
// Times here divided by times there, where both were measured.
std::string compare_against(const CompareRecord& here, const CompareRecord& there,
                            std::size_t width = kUsualColumns);

}  // namespace longspan
