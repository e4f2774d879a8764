// The page of a comparison on a task: one HTML file with its plots, its table and the record. It
// asks the network for nothing and needs no script.
#pragma once

#include <string>

#include "longspan/report/quality_record.h"

namespace longspan {

// `against`: a record of another machine, whose points are drawn too; null: none.
std::string quality_page(const QualityRecord& record, const QualityRecord* against = nullptr);

}  // namespace longspan
