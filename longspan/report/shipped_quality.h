// How good models became that were trained with each attention, as the program knows it without
// any file: the records of data/quality, each with its date, sizes, seeds and command.
#pragma once

#include <vector>

#include "longspan/report/quality_record.h"

namespace longspan {

std::vector<QualityRecord> shipped_quality();

}  // namespace longspan
