// How tasks are judged whose targets are right or wrong as a whole.
#pragma once

#include "longspan/tasks/task.h"

namespace longspan {

// Counts the sequences all of whose targets are the likeliest.
void add_perfect(const Batch& batch, ConstMatrix scores, Tally& tally);

// Loss, the share of right tokens and that of right sequences.
Judgement judge_sequences(Split split, const Tally& tally);

}  // namespace longspan
