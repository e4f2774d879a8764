// What the process holds in memory, as the operating system sees it.
#pragma once

#include <cstddef>

namespace longspan {

std::size_t resident_bytes();       // now
std::size_t peak_resident_bytes();  // at most so far

}  // namespace longspan
