// A comparison on a task for people and spreadsheets.
#pragma once

#include <string>

#include "longspan/report/lines.h"
#include "longspan/report/quality_summary.h"

namespace longspan {

// How it was trained: the task, the model, the steps and the machine.
std::string protocol_text(const QualityRecord& record);
// "97.00 % to 99.00 %", worst to best; empty where there is one seed.
std::string spread_text(const QualitySettings& settings, const Standing& standing);

// The standings, what was left out, and the conclusion, in lines of at most `width` characters.
std::string quality_table(const QualityRecord& record, std::size_t width = kUsualColumns);
// A line for each trial.
std::string quality_csv(const QualityRecord& record);
// The standings here and there, of mechanisms that were trained in both.
std::string quality_against(const QualityRecord& here, const QualityRecord& there,
                            std::size_t width = kUsualColumns);

}  // namespace longspan
