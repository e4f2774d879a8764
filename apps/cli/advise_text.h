// What advise says: tables and sentences for people, the same for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "longspan/compare/advice.h"
#include "longspan/report/quality_record.h"

namespace longspan::cli {

// The replacement of exact attention in a model that exists.
void print_replacement(const Calibration& calibration, const AdviceQuestion& question,
                       const Advice& advice);
// What to train a new model with, by a record of the task.
void print_for_task(const AdviceQuestion& question, const Advice& advice,
                    const QualityRecord& record);
// `record` is null where something is to be replaced.
nlohmann::json advice_json(const AdviceQuestion& question, const Advice& advice,
                           const QualityRecord* record);

}  // namespace longspan::cli
