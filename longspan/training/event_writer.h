// Events that a model goes on with, drawn one by one from the intensities that it foretells.
//
// The model reads its history again for each event; of one that is longer than its positions the
// newer half.
#pragma once

#include "longspan/models/model.h"
#include "longspan/tasks/task.h"

namespace longspan {

// `count` events behind `begin`, or fewer where the task says that no more come: a function of the
// seed.
TimedTokens write_events(Model& model, const Task& task, TimedTokens begin, std::size_t count,
                         RandomKey seed);

}  // namespace longspan
