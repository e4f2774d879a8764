// How often the process has asked for memory: a program that calls this has global new and delete
// that count.
#pragma once

#include <cstddef>

namespace longspan::testing {

std::size_t allocations();

}  // namespace longspan::testing
