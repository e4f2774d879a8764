// What the record of a comparison on a task says to somebody who is about to train a model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "longspan/compare/advice.h"
#include "longspan/report/quality_record.h"

namespace longspan {

// One that is on the task: of several that were trained alike all their trials, of others the one
// whose sequences are nearest to `length`. Throws Error, "[advise] …", where there is none.
QualityRecord record_of_task(std::vector<QualityRecord> records, std::string_view task,
                             std::uint64_t length);

struct NewModel {
  std::uint64_t length = 0;
  bool causal = false;
  double within = 0.0;  // what may be lost of the quality
};

// All that was trained, the best first. As good as the best is what the spread of the seeds does not
// tell from it, or what is worse by at most `within`; unless it saw every token where it was judged,
// or may have, and would not at the model's length.
std::vector<JudgedMechanism> judged_by(const QualityRecord& record, const NewModel& model);

}  // namespace longspan
