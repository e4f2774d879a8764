// The tables of the page of a comparison, as HTML: the numbers of the record without a script.
#pragma once

#include <string>

#include "longspan/report/compare_record.h"

namespace longspan {

// What was compared, where, and how good the predictions were: a list of terms.
std::string facts_list(const CompareRecord& record);

// One row for each mechanism, one column for each length.
std::string time_table(const CompareRecord& record);
std::string memory_table(const CompareRecord& record);
std::string error_table(const CompareRecord& record);

// Seconds of each kind of operation, one row for each mechanism and length.
std::string kinds_table(const CompareRecord& record);
// FLOPs and bytes of each kind of operation, one row for each mechanism, length and kind.
std::string roofline_table(const CompareRecord& record);
std::string fusion_table(const CompareRecord& record);

// Complexity, fitted exponents, crossover, parameters and abilities of each mechanism.
std::string complexity_table(const CompareRecord& record);
// What was refused, skipped, failed or left out, and why.
std::string missing_table(const CompareRecord& record);
std::string machine_table(const CompareRecord& record);

}  // namespace longspan
