// The calibration of this machine. One that is kept but cannot be used (broken, of another format or
// machine) is said to be so; then commands that only show times go on without them, and commands
// that need them measure the machine again.
#pragma once

#include <optional>

#include "command.h"
#include "longspan/predict/calibration.h"

namespace longspan::cli {

// What is kept; nothing where there is nothing to use.
std::optional<Calibration> known_calibration(const Common& common);
// What is kept, or else measured now and kept.
Calibration calibration_for(const Common& common);

}  // namespace longspan::cli
