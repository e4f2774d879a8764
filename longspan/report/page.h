// The page of a comparison: one HTML file that holds its charts, its tables and the record itself.
// It opens from the file system, asks the network for nothing, and shows its tables without a
// script.
#pragma once

#include <string>
#include <string_view>

#include "longspan/report/compare_record.h"

namespace longspan {

std::string comparison_page(const CompareRecord& record);

// The page before anything is filled in, as built from apps/web; `<!--longspan:NAME-->` marks what
// goes where.
std::string_view page_template();

}  // namespace longspan
