// How often the process has asked for memory, and that it is refused: a program that calls this has
// global new and delete that count.
#pragma once

#include <cstddef>

namespace longspan::testing {

std::size_t allocations();

// While one lives, the allocation that comes after `more` others is refused, once.
class RefusedAllocation {
 public:
  explicit RefusedAllocation(std::size_t more);
  ~RefusedAllocation();
  RefusedAllocation(const RefusedAllocation&) = delete;
  RefusedAllocation& operator=(const RefusedAllocation&) = delete;
};

}  // namespace longspan::testing
