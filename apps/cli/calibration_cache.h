// The calibration of this machine, made first where there is none.
#pragma once

#include "command.h"
#include "longspan/predict/calibration.h"

namespace longspan::cli {

Calibration calibration_for(const Common& common);

}  // namespace longspan::cli
