// Predicted against measured, for one model: what `longspan cost --verify` prints.
#pragma once

#include "command.h"
#include "longspan/cost/workload.h"

namespace longspan::cli {

struct VerifyOptions {
  bool memory = false;  // only the memory of a training step, against the resident set
};

// Runs the model, in inference and in training. Times are predicted where the machine is
// calibrated.
void print_verification(const Workload& workload, const VerifyOptions& options,
                        const Common& common);

}  // namespace longspan::cli
