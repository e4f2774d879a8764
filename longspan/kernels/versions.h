// The libraries that the kernels use.
#pragma once

#include <string>

namespace longspan {

std::string onednn_version();   // "2.6.3"
std::string highway_version();  // "1.0.3"

}  // namespace longspan
