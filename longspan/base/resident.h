// What the process holds in memory, as the operating system sees it.
#pragma once

#include <cstddef>

namespace longspan {

std::size_t resident_bytes();       // now
std::size_t peak_resident_bytes();  // at most so far

// By less a process grows for reasons of its own (pages, stacks, the allocator), which say nothing
// about a prediction.
inline constexpr std::size_t kTellingGrowth = std::size_t{8} << 20U;

}  // namespace longspan
