// Measures this machine: products by shape, streaming kernels, every attention mechanism, whole
// small models; in seconds to about a minute.
#pragma once

#include <functional>
#include <string_view>

#include "longspan/predict/calibration.h"

namespace longspan {

// `report` is told what comes next.
Calibration calibrate(const std::function<void(std::string_view)>& report);

}  // namespace longspan
