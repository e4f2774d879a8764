// The libraries that the kernels use, and the instruction sets that they were compiled for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longspan {

std::string onednn_version();   // "2.6.3"
std::string highway_version();  // "1.0.3"

// Those that this CPU has, best first, by Highway's numbers.
std::vector<std::int64_t> kernel_targets();

}  // namespace longspan
