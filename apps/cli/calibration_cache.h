// The calibration of this machine, made first where there is none.
#pragma once

#include <optional>

#include "command.h"
#include "longspan/predict/calibration.h"

namespace longspan::cli {

// What this machine is known to do; nothing where it was never calibrated, or by another version.
std::optional<Calibration> known_calibration();
Calibration calibration_for(const Common& common);

}  // namespace longspan::cli
